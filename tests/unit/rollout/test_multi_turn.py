"""Conversations through the agent loop: segments, roles, what was sampled and what was not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
import torch
from tests.tiny import learner, picture, scorer

from groundrl.learner.experience import from_rollouts
from groundrl.prompting.prompt import PromptConfig
from groundrl.rollout.collect import Collector
from groundrl.rollout.config import RolloutConfig
from groundrl.rollout.engines.base import Completion, Request, Sampling
from groundrl.rollout.engines.hf_engine import HFEngine
from groundrl.rollout.engines.scripted import ScriptedEngine, ScriptedEngineConfig
from groundrl.rollout.episode import Context, Episode, Insertion, NextTurn, Replacement
from groundrl.rollout.single_turn import SingleTurn
from groundrl.types import ImagePart, Message, Role, Rollout, RolloutStatus, Sample, Task, TextPart, Truth

SAMPLING = Sampling(temperature=1.0, max_new_tokens=32)
P, S, INJ, OBS, VER, TPL, DRAFT = (int(role) for role in Role)


def sample(number: int, images: int = 1) -> Sample:
    return Sample(
        id=f"s{number}",
        task=Task.text,
        images=tuple(picture((112, 112), number + n) for n in range(images)),
        truth=Truth(answer="a"),
        question=f"question {number}",
    )


def turn(processor, text: str, images=()) -> np.ndarray:
    """A user turn that follows an ended assistant turn."""
    parts = (*(ImagePart(n) for n in range(len(images))), TextPart(text))
    return np.concatenate(
        [processor.encode("\n"), processor.render((Message(role="user", parts=parts),), images)]
    )


class Hooks(SingleTurn):
    """Hooks that do nothing, for the toy kinds below."""

    def __init__(self, processor, max_turns: int = 2) -> None:
        self.processor = processor
        self.max_turns = max_turns


class Verify(Hooks):
    """Two turns: an answer, then the same policy judges it."""

    def next_turn(self, episode: Episode) -> NextTurn | None:
        if episode.turns == 2:
            return None
        return NextTurn(
            insertions=(Insertion(ids=turn(self.processor, "Is the answer correct?"), role=Role.VERIFY),)
        )


class Crop(Hooks):
    """Two turns: the policy looks, is shown another picture inside the response, and answers."""

    def next_turn(self, episode: Episode) -> NextTurn | None:
        if episode.turns == 2:
            return None
        seen = (self.processor.prepare(picture((140, 56), 77 + episode.index)),)
        ids = turn(self.processor, "the crop", seen)
        return NextTurn(insertions=(Insertion(ids=ids, role=Role.OBSERVATION, images=seen),))


class Drop(Crop):
    """As Crop, but the first picture leaves the context before the second turn."""

    def context_filter(self, episode: Episode) -> Context | None:
        seen = (self.processor.prepare(picture((84, 84), 5)),)
        message = Message(role="user", parts=(ImagePart(0), TextPart(f"only the crop {episode.sample.id}")))
        return Context(ids=self.processor.render((message,), seen), images=seen)


class Gate(Verify):
    """Replaces what follows the first two tokens of the first turn."""

    def on_action(self, episode: Episode) -> Replacement | None:
        if episode.turns == 2:
            return None
        ids = np.append(self.processor.encode("no"), 600).astype(np.int64)
        return Replacement(insertion=Insertion(ids=ids, role=Role.INJECTED), keep=2)


class Recorded:
    """An engine that answers with ids no tokenizer would produce, and remembers what it was asked."""

    def __init__(self, eos: int, limit: int = 99) -> None:
        self.eos, self.limit = eos, limit
        self.asked: list[list[Request]] = []

    def generate(self, requests: Sequence[Request], sampling: Sampling) -> list[list[Completion]]:
        self.asked.append(list(requests))
        out = []
        for number, request in enumerate(requests):
            row = []
            for index in range(len(request.seeds)):
                # single bytes: re-tokenising would merge them
                n = 3 + number + index
                ids = np.append(np.full(n, 40 + len(self.asked)), self.eos).astype(np.int64)
                logprobs = -0.1 * np.arange(1, n + 2, dtype=np.float32) - len(self.asked)
                row.append(Completion(ids=ids, logprobs=logprobs, finished=len(self.asked) < self.limit))
            out.append(row)
        return out

    def sync_weights(self, model: object) -> None:
        return None

    def close(self) -> None:
        return None


def collect(policy, kind, *, samples=2, per_sample=2, engine=None) -> tuple[list[Rollout], Recorded]:
    engine = engine or Recorded(600)
    collector = Collector(engine, policy.processor, PromptConfig().build(), kind)
    return collector.collect([sample(n) for n in range(samples)], per_sample, SAMPLING, seed=(0,)), engine


def check_log_probs(rollout) -> None:
    """nan exactly where nothing was sampled."""
    for segment in rollout.segments:
        assert len(segment.response_ids) == len(segment.roles) == len(segment.behaviour_logprobs)
        assert segment.roles.dtype == np.int8
        assert segment.response_ids.dtype == np.int64
        assert np.array_equal(np.isnan(segment.behaviour_logprobs), segment.roles != Role.STUDENT)


def test_an_append_only_conversation_is_one_segment(tiny_policy) -> None:
    kind = Verify(tiny_policy.processor)
    rollouts, engine = collect(tiny_policy, kind)
    inserted = turn(tiny_policy.processor, "Is the answer correct?")
    assert [(r.sample_id, r.group, r.index, r.turns) for r in rollouts] == [
        ("s0", 0, 0, 2),
        ("s0", 0, 1, 2),
        ("s1", 1, 0, 2),
        ("s1", 1, 1, 2),
    ]
    # the first call asks for two completions of each prompt, the second for one of each conversation
    assert [len(r.seeds) for r in engine.asked[0]] == [2, 2]
    assert [len(r.seeds) for r in engine.asked[1]] == [1, 1, 1, 1]
    for n, rollout in enumerate(rollouts):
        (segment,) = rollout.segments
        first = 3 + n // 2 + n % 2 + 1
        second = 3 + n + 1
        assert segment.roles.tolist() == [S] * first + [VER] * len(inserted) + [S] * second
        wanted = [41] * (first - 1) + [600] + inserted.tolist() + [42] * (second - 1) + [600]
        assert segment.response_ids.tolist() == wanted
        expected = np.concatenate(
            [
                -0.1 * np.arange(1, first + 1) - 1,
                np.full(len(inserted), np.nan),
                -0.1 * np.arange(1, second + 1) - 2,
            ]
        )
        np.testing.assert_allclose(segment.behaviour_logprobs, expected, rtol=1e-6)
        check_log_probs(rollout)
        assert rollout.status is RolloutStatus.FINISHED
        assert rollout.num_student_tokens == first + second
        # token in, token out: the second context is the first one continued
        context = engine.asked[1][n].prompt_ids
        assert context.tolist() == segment.prompt_ids.tolist() + wanted[: first + len(inserted)]
        assert rollout.text == tiny_policy.processor.decode([42] * (second - 1))
        assert segment.turn == 0


def test_every_turn_draws_its_own_numbers(tiny_policy) -> None:
    _, engine = collect(tiny_policy, Verify(tiny_policy.processor))
    first = [seed for request in engine.asked[0] for seed in request.seeds]
    second = [seed for request in engine.asked[1] for seed in request.seeds]
    assert len({*first, *second}) == 8


def test_a_rewritten_context_begins_a_segment(tiny_policy) -> None:
    rollouts, engine = collect(tiny_policy, Drop(tiny_policy.processor))
    for n, rollout in enumerate(rollouts):
        before, after = rollout.segments
        assert (before.turn, after.turn) == (0, 1)
        kinds = before.roles.tolist()
        first = kinds.index(OBS)
        assert kinds == [S] * first + [OBS] * (len(kinds) - first)
        assert len(before.images) == 2
        assert after.roles.tolist() == [S] * len(after.roles)
        assert set(after.response_ids.tolist()) == {42, 600}
        check_log_probs(rollout)
        # the second turn saw the rewritten context and nothing else
        request = engine.asked[1][n]
        assert request.prompt_ids.tolist() == after.prompt_ids.tolist()
        assert len(request.images) == len(after.images) == 1
        assert f"only the crop s{n // 2}" in tiny_policy.processor.decode(after.prompt_ids)
        assert before.images[0].grid_thw == (1, 8, 8)
        # frames are those of the sample's own images, whatever was shown later
        assert [frame.original for frame in rollout.frames] == [(112, 112)]
        assert rollout.num_student_tokens == first + len(after.roles)


def test_a_replaced_turn_is_marked_as_injected(tiny_policy) -> None:
    rollouts, engine = collect(tiny_policy, Gate(tiny_policy.processor), samples=1)
    injected = [*tiny_policy.processor.encode("no").tolist(), 600]
    inserted = turn(tiny_policy.processor, "Is the answer correct?")
    for n, rollout in enumerate(rollouts):
        (segment,) = rollout.segments
        k = len(injected)
        assert segment.roles[: 2 + k].tolist() == [S] * 2 + [INJ] * k
        assert segment.response_ids[: 2 + k].tolist() == [41, 41, *injected]
        assert segment.roles[2 + k : 2 + k + len(inserted)].tolist() == [VER] * len(inserted)
        assert segment.roles[2 + k + len(inserted) :].tolist() == [S] * (3 + n + 1)
        check_log_probs(rollout)
        np.testing.assert_allclose(segment.behaviour_logprobs[:2], [-1.1, -1.2], rtol=1e-6)
        wanted = [*segment.prompt_ids.tolist(), 41, 41, *injected, *inserted.tolist()]
        assert engine.asked[1][n].prompt_ids.tolist() == wanted


def test_a_replaced_last_turn_is_what_rewards_read(tiny_policy) -> None:
    class Last(Gate):
        def next_turn(self, episode: Episode) -> NextTurn | None:
            return None

    rollouts, _ = collect(tiny_policy, Last(tiny_policy.processor), samples=1)
    text = tiny_policy.processor.decode([41, 41]) + "no"
    assert [rollout.text for rollout in rollouts] == [text, text]
    assert [rollout.num_student_tokens for rollout in rollouts] == [2, 2]


def test_replacing_a_later_turn_keeps_the_earlier_ones(tiny_policy) -> None:
    class Second(Gate):
        def on_action(self, episode: Episode) -> Replacement | None:
            return None if episode.turns == 1 else Gate.on_action(self, episode_at(episode, 1))

    def episode_at(episode: Episode, turns: int) -> Episode:
        return replace(episode, turns=turns)

    rollouts, _ = collect(tiny_policy, Second(tiny_policy.processor), samples=1)
    plain, _ = collect(tiny_policy, Verify(tiny_policy.processor), samples=1)
    injected = [*tiny_policy.processor.encode("no").tolist(), 600]
    for rollout, other in zip(rollouts, plain, strict=True):
        (segment,), (whole,) = rollout.segments, other.segments
        kept = whole.roles.tolist().index(VER) + int((whole.roles == VER).sum()) + 2
        assert segment.response_ids.tolist() == [*whole.response_ids[:kept].tolist(), *injected]
        assert segment.roles.tolist() == [*whole.roles[:kept].tolist(), *([INJ] * len(injected))]
        check_log_probs(rollout)


def test_frames_are_those_of_the_samples_own_images(tiny_policy) -> None:
    sizes = ((112, 112), (100, 60), (56, 140))
    samples = [replace(sample(n), images=(picture(size, n),)) for n, size in enumerate(sizes)]
    collector = Collector(Recorded(600), tiny_policy.processor, PromptConfig().build(), SingleTurn())
    rollouts = collector.collect(samples, 2, SAMPLING, seed=(0,))
    assert [r.frames[0].original for r in rollouts] == [size for size in sizes for _ in range(2)]
    assert [r.frames[0].processed for r in rollouts][::2] == [(112, 112), (112, 56), (56, 140)]


def test_losses_select_student_tokens_only(tiny_policy) -> None:
    for kind in (Verify, Drop, Gate):
        rollouts, _ = collect(tiny_policy, kind(tiny_policy.processor))
        rows = from_rollouts(rollouts, np.arange(4.0), np.ones(4, dtype=bool))
        segments = [segment for rollout in rollouts for segment in rollout.segments]
        assert len(rows) == len(segments)
        for row, segment in zip(rows, segments, strict=True):
            assert row.selected.tolist() == [role == S for role in segment.roles]
            assert row.row.completion is segment.response_ids
        assert sum(int(row.selected.sum()) for row in rows) == sum(r.num_student_tokens for r in rollouts)


class Mixed(Verify):
    """Conversations of different lengths in one batch: index 0 ends after one turn."""

    def next_turn(self, episode: Episode) -> NextTurn | None:
        return None if episode.index == 0 else super().next_turn(episode)


def test_conversations_end_one_by_one(tiny_policy) -> None:
    rollouts, engine = collect(tiny_policy, Mixed(tiny_policy.processor))
    assert [r.turns for r in rollouts] == [1, 2, 1, 2]
    assert [len(requests) for requests in engine.asked] == [2, 2]
    assert [r.sample_id for r in rollouts] == ["s0", "s0", "s1", "s1"]


def test_too_many_turns_and_cut_turns_are_flagged(tiny_policy) -> None:
    class Endless(Verify):
        def next_turn(self, episode: Episode) -> NextTurn | None:
            return NextTurn(insertions=(Insertion(ids=turn(self.processor, "again"), role=Role.TEMPLATE),))

    rollouts, engine = collect(tiny_policy, Endless(tiny_policy.processor, max_turns=3))
    assert {r.status for r in rollouts} == {RolloutStatus.TRUNCATED_TURNS}
    assert [r.turns for r in rollouts] == [3] * 4
    assert len(engine.asked) == 3
    for rollout in rollouts:
        assert rollout.segments[0].roles[-1] == S  # nothing is appended that nobody answers

    cut, engine = collect(tiny_policy, Endless(tiny_policy.processor, 3), engine=Recorded(600, limit=2))
    assert {r.status for r in cut} == {RolloutStatus.TRUNCATED_LENGTH}
    assert [r.turns for r in cut] == [2] * 4
    assert len(engine.asked) == 2


@pytest.mark.parametrize("kind", [SingleTurn, Verify, Crop, Drop, Gate])
def test_the_learner_scores_every_sampled_token_as_the_engine_did(exact_policy, kind) -> None:
    """Real engine, pictures of other sizes inside the response, contexts rewritten: one policy.

    In float64: these contexts are far from anything the policy knows, and float32 rounding reaches 2e-5.
    """
    model, processor = exact_policy.model, exact_policy.processor
    made = kind() if kind is SingleTurn else kind(processor)
    collector = Collector(HFEngine(model, processor, max_batch=64), processor, PromptConfig().build(), made)
    rollouts = collector.collect(
        [sample(0), sample(1, images=2), sample(2, images=0)],
        2,
        Sampling(temperature=0.7, max_new_tokens=60),
        seed=(0,),
    )
    if kind is not SingleTurn:
        assert sum(r.turns == 2 for r in rollouts) >= 2
    rows = from_rollouts(rollouts, np.zeros(len(rollouts)), np.ones(len(rollouts), dtype=bool))
    with torch.no_grad():
        scores = scorer(processor, 0.7)(model, [row.row for row in rows])
    for b, row in enumerate(rows):
        got = scores.logprobs[b, : len(row.selected)].numpy()[row.selected]
        np.testing.assert_allclose(got, row.behaviour_logprobs[row.selected], rtol=0, atol=1e-6)


def test_a_multi_turn_batch_trains(fresh_policy) -> None:
    rollouts, _ = collect(fresh_policy, Crop(fresh_policy.processor))
    rows = from_rollouts(rollouts, np.array([1.0, -1.0, 0.5, -0.5]), np.ones(4, dtype=bool))
    metrics = learner(fresh_policy.model, fresh_policy.processor, num_iterations=2).step(rows)
    assert metrics["learner/skipped"] == 0.0
    assert metrics["learner/grad_norm"] > 0
    assert all(np.isfinite(value) for value in metrics.values())


def test_scripted_answers_are_cut_like_any_other(tiny_policy) -> None:
    processor = tiny_policy.processor
    engine = ScriptedEngine(lambda request, number, index: "red circle " * (number + index), processor)
    context = np.zeros(3, dtype=np.int64)
    requests = [Request(prompt_ids=context, images=(), seeds=(1, 2)) for _ in range(3)]
    full = engine.generate(requests, Sampling(temperature=1.0, max_new_tokens=99))
    assert [[processor.decode(c.ids) for c in row] for row in full] == [
        ["red circle " * (n + k) for k in range(2)] for n in range(3)
    ]
    n = len(full[1][0].ids)
    exact = engine.generate(requests, Sampling(temperature=1.0, max_new_tokens=n))[1][0]
    short = engine.generate(requests, Sampling(temperature=1.0, max_new_tokens=n - 1))[1][0]
    assert exact.finished
    assert exact.ids.tolist() == full[1][0].ids.tolist()
    assert not short.finished
    assert short.ids.tolist() == full[1][0].ids[:-1].tolist()
    said = ScriptedEngineConfig(text="<answer>x</answer>").build(None, processor).generate(requests, SAMPLING)
    assert processor.decode(said[0][0].ids) == "<answer>x</answer>"


def test_settings_of_rollouts(tiny_policy) -> None:
    from groundrl.errors import ConfigError

    bad = (
        ("temperature", 0.0),
        ("temperature", float("nan")),
        ("temperature", 11.0),
        ("top_k", -1),
        ("top_p", 0.0),
        ("top_p", 1.1),
        ("max_new_tokens", 0),
    )
    for key, value in bad:
        with pytest.raises(ConfigError) as caught:
            RolloutConfig(**{key: value})
        assert caught.value.key == key
    got = RolloutConfig(temperature=0.9, top_k=50, top_p=0.5, max_new_tokens=7).sampling()
    assert got == Sampling(temperature=0.9, top_k=50, top_p=0.5, max_new_tokens=7)
    with pytest.raises(ConfigError):
        RolloutConfig().build_kind(tiny_policy.processor)
    with pytest.raises(ConfigError, match="text: must not be empty"):
        ScriptedEngineConfig(text="")
