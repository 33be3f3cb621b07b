"""Self-verifying rollouts (SVR-R1): turns, masks, limits, the closed form, templates that rewrite."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from tests.tiny import ask, picture

from groundrl.config.compose import compose_run
from groundrl.errors import ConfigError, DataError
from groundrl.learner.experience import from_rollouts
from groundrl.models.processor import Processor
from groundrl.prompting.prompt import PromptConfig
from groundrl.rollout.collect import Collector
from groundrl.rollout.engines.base import Completion, Request, Sampling
from groundrl.rollout.engines.hf_engine import HFEngine
from groundrl.rollout.self_verify import SelfVerifyConfig
from groundrl.types import Message, Role, Rollout, RolloutStatus, Sample, Segment, Task, TextPart, Truth

P, S, V, D = int(Role.PROMPT), int(Role.STUDENT), int(Role.VERIFY), int(Role.DRAFT)
SAMPLING = Sampling(temperature=1.0, max_new_tokens=24)


class Scripted:
    """Says the next line of the rollout's own script, whatever it is asked; remembers every request."""

    def __init__(self, processor: Processor, script: Callable[[int, int], str]) -> None:
        self.processor = processor
        self.script = script
        self.asked: list[tuple[Sequence[Request], Sampling]] = []

    def generate(self, requests: Sequence[Request], sampling: Sampling) -> list[list[Completion]]:
        self.asked.append((requests, sampling))
        turn = len(self.asked) - 1
        out: list[list[Completion]] = []
        number = 0
        for request in requests:
            row: list[Completion] = []
            for _ in request.seeds:
                ids = self.processor.encode(self.script(number, turn))
                ids = np.append(ids, self.processor.tokenizer.eos_token_id)
                row.append(done(ids, len(ids) <= sampling.max_new_tokens, sampling.max_new_tokens))
                number += 1
            out.append(row)
        return out


def done(ids: Any, finished: bool, most: int) -> Completion:
    ids = np.asarray(ids, dtype=np.int64)[:most]
    return Completion(ids=ids, logprobs=np.full(len(ids), -0.5, dtype=np.float32), finished=finished)


def sample(number: int = 0) -> Sample:
    images = (picture((112, 112), number),)
    return Sample(id=f"s{number}", task=Task.text, images=images, truth=Truth(answer="a"), question="what?")


@cache
def settings(*words: str) -> SelfVerifyConfig:
    config = compose_run(["rollout=self_verify", *words]).rollout
    assert isinstance(config, SelfVerifyConfig)
    return config


def play(
    processor: Processor, lines: Sequence[str], *words: str, limit: int | None = None
) -> tuple[Rollout, Scripted]:
    """One rollout whose turns say `lines`."""
    engine: Any = Scripted(processor, lambda number, turn: lines[turn])
    kind = settings(*words).build_kind(processor)
    collector = Collector(engine, processor, PromptConfig().build(), kind, limit=limit)
    (rollout,) = collector.collect([sample()], 1, SAMPLING, seed=(0,))
    return rollout, engine


@pytest.mark.parametrize(
    ("limit", "lines", "turns", "text"),
    [
        (3, ["one", "<YES>"], 2, "one"),
        (3, ["one", "<NO>", "two", "<YES>"], 4, "two"),
        (3, ["one", "<NO>", "two", "<NO>", "three"], 5, "three"),
        (5, ["1", "NO", "2", "no", "3", "<NO>", "4", "No.", "5"], 9, "5"),
        (1, ["one"], 1, "one"),
        (3, ["one", "hm", "two", "", "three"], 5, "three"),  # what is neither word counts as NO
        (3, ["one", "NO<YES>", "two", "yes, it is"], 4, "two"),  # the first word decides
        (3, ["", "<NO>", "two", "<YES>"], 4, "two"),  # an empty answer is one too
    ],
)
def test_turns_and_final_answers(tiny_policy, limit: int, lines: list[str], turns: int, text: str) -> None:
    rollout, engine = play(tiny_policy.processor, lines, f"rollout.verify.limit={limit}")
    assert (rollout.turns, rollout.text, rollout.status) == (turns, text, RolloutStatus.FINISHED)
    assert len(engine.asked) == turns
    if turns > 1:
        assert [said.text for said in rollout.said] == lines
        roles = [Role.STUDENT, Role.VERIFY] * 5
        assert [said.role for said in rollout.said] == roles[:turns]
    else:
        assert rollout.said == ()


@pytest.mark.parametrize(("limit", "turns"), [(1, 1), (2, 1), (3, 3), (4, 3), (5, 5), (9, 9)])
def test_limits_may_count_turns(tiny_policy, limit: int, turns: int) -> None:
    """A verdict that nothing could follow is not asked for."""
    rollout, _ = play(
        tiny_policy.processor,
        ["x", "<NO>"] * 5,
        f"rollout.verify.limit={limit}",
        "rollout.verify.count=turns",
    )
    assert rollout.turns == turns


def test_the_last_answer_can_be_verified_for_the_record(tiny_policy) -> None:
    words = ("rollout.verify.verify_last=true", "rollout.verify.limit=2")
    for verdict in ("<YES>", "<NO>"):
        rollout, _ = play(tiny_policy.processor, ["one", "<NO>", "two", verdict], *words)
        assert (rollout.turns, rollout.text) == (4, "two")
        assert rollout.status is RolloutStatus.FINISHED


def rows(rollout: Rollout) -> Segment:
    (segment,) = rollout.segments
    return segment


def test_answers_are_learned_from_and_nothing_else(tiny_policy) -> None:
    processor = tiny_policy.processor
    lines = ["ab", "<NO>", "cde", "<YES>"]
    rollout, engine = play(processor, lines)
    segment = rows(rollout)
    lengths = [len(processor.encode(line)) + 1 for line in lines]
    config = settings().verify
    asks = [
        len(processor.reply(Message(role="user", parts=(TextPart(text),))))
        for text in (config.verify_prompt, config.rethink_prompt, config.verify_prompt)
    ]
    wanted = [S] * lengths[0] + [P] * asks[0] + [V] * lengths[1] + [P] * asks[1] + [S] * lengths[2]
    wanted += [P] * asks[2] + [V] * lengths[3]
    assert segment.roles.tolist() == wanted
    assert rollout.num_student_tokens == lengths[0] + lengths[2]
    (row,) = from_rollouts([rollout], np.ones(1), np.ones(1, dtype=bool))
    assert row.selected.tolist() == [role == S for role in wanted]
    # sampled ids, position by position, each with its log-prob; inserted ones have none
    place = 0
    for length, role in zip(
        [lengths[0], asks[0], lengths[1], asks[1], lengths[2], asks[2], lengths[3]], "SPVPSPV", strict=True
    ):
        known = np.isfinite(segment.behaviour_logprobs[place : place + length])
        assert known.all() if role != "P" else not known.any()
        place += length
    # append-only: each turn's context begins with all of the earlier one
    contexts = [requests[0].prompt_ids for requests, _ in engine.asked]
    for earlier, later in pairwise(contexts):
        assert later[: len(earlier)].tolist() == earlier.tolist()
    whole = np.concatenate([segment.prompt_ids, segment.response_ids])
    assert whole[: len(contexts[-1])].tolist() == contexts[-1].tolist()

    final, _ = play(processor, lines, "rollout.train_rounds=final")
    roles = rows(final).roles
    assert roles.tolist() == [D] * lengths[0] + wanted[lengths[0] :]
    assert final.num_student_tokens == lengths[2]
    assert rows(final).response_ids.tolist() == segment.response_ids.tolist()
    kept, _ = play(processor, ["ab", "<YES>"], "rollout.train_rounds=final")
    assert kept.num_student_tokens == lengths[0]


def test_what_stands_between_turns_is_what_the_template_writes(tiny_policy) -> None:
    """The whole conversation, rendered by the template at once, is the ids that were collected: no newline
    between turns is lost (incremental templating did), no token is added."""
    processor = tiny_policy.processor
    config = settings().verify
    lines = ["ab", "<NO>", "cde", "<YES>"]
    rollout, _ = play(processor, lines)
    segment = rows(rollout)
    asks = (config.verify_prompt, config.rethink_prompt, config.verify_prompt)
    turns: list[dict[str, Any]] = [{"role": "user", "content": "?"}]
    for line, request in zip(lines, (*asks, None), strict=True):
        turns.append({"role": "assistant", "content": line})
        if request is not None:
            turns.append({"role": "user", "content": request})
    for turn in turns:
        turn["content"] = [{"type": "text", "text": turn["content"]}]
    text = processor.tokenizer.apply_chat_template(turns, tokenize=False)
    tail = text[text.index("ab") :].rstrip("\n")  # the template closes the last turn with a newline
    assert processor.tokenizer.encode(tail, add_special_tokens=False) == segment.response_ids.tolist()


STRIPPING = """{%- for message in messages %}<|im_start|>{{ message.role }}
{%- set text = message.content if message.content is string else message.content[-1].text %}
{%- if message.role == 'assistant' and not loop.last %}
{{ text.split('</think>')[-1] }}
{%- else %}
{{ text }}
{%- endif %}<|im_end|>
{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant
<think>
{% endif %}"""


def stripping(processor: Processor) -> Processor:
    """With a template that drops think blocks of the past and opens one itself (Qwen3.5's does both)."""
    tokenizer = copy.deepcopy(processor.tokenizer)
    tokenizer.chat_template = STRIPPING
    return Processor(tokenizer, processor.image_processor, processor.family)


def test_a_template_that_rewrites_the_past_changes_no_sampled_token(tiny_policy) -> None:
    processor = stripping(tiny_policy.processor)
    lines = ["a long thought</think>ab", "sure</think><NO>", "no thought</think>cde", "ok</think><YES>"]
    told = [
        {"role": "user", "content": "?"},
        {"role": "assistant", "content": lines[0]},
        {"role": "user", "content": "again"},
    ]
    again = processor.tokenizer.apply_chat_template(told, tokenize=False)
    assert "a long thought" not in again  # the template does rewrite it
    engine: Any = Scripted(processor, lambda number, turn: lines[turn])
    kind = settings("rollout.verify.verdict_tokens=24").build_kind(processor)
    text_only = replace(sample(), images=())
    collector = Collector(engine, processor, PromptConfig().build(), kind)
    (rollout,) = collector.collect([text_only], 1, SAMPLING, seed=(0,))
    segment = rows(rollout)
    sampled = segment.response_ids[np.isfinite(segment.behaviour_logprobs)]
    end = processor.tokenizer.eos_token_id
    wanted = [token for line in lines for token in [*processor.encode(line).tolist(), end]]
    assert sampled.tolist() == wanted
    for place, (requests, _) in enumerate(engine.asked):
        seen = processor.tokenizer.decode(requests[0].prompt_ids.tolist())
        assert all(line in seen for line in lines[:place])
        assert seen.endswith("<|im_start|>assistant\n<think>\n")  # each turn begins as the first one does


def test_a_template_without_an_end_of_turn_is_refused(tiny_policy) -> None:
    tokenizer = copy.deepcopy(tiny_policy.processor.tokenizer)
    tokenizer.chat_template = "{% for m in messages %}{{ m.role }}: {{ m.content[0].text }}\n{% endfor %}"
    processor = Processor(tokenizer, tiny_policy.processor.image_processor, tiny_policy.processor.family)
    with pytest.raises(DataError, match=r"follows an assistant's turn with .* which is no end token"):
        processor.reply(Message(role="user", parts=(TextPart("again"),)))


def test_a_verdict_that_is_cut_off_is_closed_and_read(tiny_policy) -> None:
    processor = tiny_policy.processor
    end = processor.tokenizer.eos_token_id
    lines = ["ab", "NO" + " and on" * 20, "cd", "<YES>"]
    rollout, engine = play(processor, lines, "rollout.verify.verdict_tokens=8")
    assert (rollout.turns, rollout.text) == (4, "cd")
    verdict = processor.encode(lines[1])[:8]
    ids = rows(rollout).response_ids.tolist()
    roles = rows(rollout).roles.tolist()
    first = roles.index(V)
    assert ids[first : first + 8] == verdict.tolist()
    assert (ids[first + 8], roles[first + 8]) == (end, P)  # added by us, so no token of the verdict
    assert engine.asked[1][1].max_new_tokens == 8
    assert engine.asked[2][1].max_new_tokens == SAMPLING.max_new_tokens


def test_an_answer_that_is_cut_off_is_final(tiny_policy) -> None:
    rollout, _ = play(tiny_policy.processor, ["so much to say" * 20])
    assert (rollout.turns, rollout.status) == (1, RolloutStatus.TRUNCATED_LENGTH)


def test_a_turn_that_does_not_fit_is_not_begun(tiny_policy) -> None:
    processor = tiny_policy.processor
    free, engine = play(processor, ["ab", "<NO>", "cde", "<YES>"])
    contexts = [len(requests[0].prompt_ids) for requests, _ in engine.asked]
    most = contexts[2] + SAMPLING.max_new_tokens
    fitting, _ = play(processor, ["ab", "<NO>", "cde", "<YES>"], limit=most)
    assert (fitting.turns, fitting.status) == (3, RolloutStatus.TRUNCATED_CONTEXT)
    cut, _ = play(processor, ["ab", "<NO>", "cde", "<YES>"], limit=most - 1)
    assert (cut.turns, cut.status, cut.text) == (2, RolloutStatus.TRUNCATED_CONTEXT, "ab")
    assert rows(cut).response_ids.tolist() == rows(free).response_ids[: len(rows(cut).response_ids)].tolist()
    assert rows(cut).roles[-1] == V  # nothing is appended that nobody answers
    alone, _ = play(processor, ["ab"], "rollout.train_rounds=final", limit=contexts[1])
    assert alone.num_student_tokens == 3  # the answer that stays is learned from


def test_a_batch_goes_on_together_and_ends_one_by_one(tiny_policy) -> None:
    processor = tiny_policy.processor

    class Batch(Scripted):
        def generate(self, requests: Sequence[Request], sampling: Sampling) -> list[list[Completion]]:
            self.asked.append((requests, sampling))
            return [
                [done([*processor.encode("<NO>" if len(requests) == 1 else self.word()), 600], True, 24)
                 for _ in request.seeds]
                for request in requests
            ]  # fmt: skip

        def word(self) -> str:
            self.number = getattr(self, "number", -1) + 1
            return "<NO>" if self.number % 2 else "<YES>"

    engine: Any = Batch(processor, lambda number, turn: "")
    kind = settings().build_kind(processor)
    collector = Collector(engine, processor, PromptConfig().build(), kind)
    rollouts = collector.collect([sample(0), sample(1)], 1, SAMPLING, seed=(0,))
    assert [rollout.turns for rollout in rollouts] == [2, 5]
    assert [len(requests) for requests, _ in engine.asked] == [2, 2, 1, 1, 1]
    assert set(collector.take_seconds()) == {Role.STUDENT, Role.VERIFY}
    assert collector.take_seconds() == {}


def test_verdicts_can_be_chosen(tiny_policy) -> None:
    """The untaught tiny model, which would write anything, chooses one of two words by their log-probs."""
    processor = tiny_policy.processor
    engine = HFEngine(tiny_policy.model, processor, max_batch=8)
    kind = settings().build_kind(processor)
    collector = Collector(engine, processor, PromptConfig().build(), kind)
    sampling = Sampling(temperature=1.0, max_new_tokens=6)
    rollouts = collector.collect([sample(n) for n in range(3)], 2, sampling, seed=(1,))
    verdicts = [said.text for rollout in rollouts for said in rollout.said if said.role is Role.VERIFY]
    assert all(text in ("<YES>", "<NO>") for text in verdicts)
    finished = [rollout for rollout in rollouts if rollout.status is not RolloutStatus.TRUNCATED_LENGTH]
    assert len([one for one in finished if one.said]) == len(finished)


def test_choosing_draws_by_the_models_own_odds(tiny_policy) -> None:
    """Greedy takes the likelier word at each token; sampling takes each word as often as its share says."""
    processor = tiny_policy.processor
    engine = HFEngine(tiny_policy.model, processor, max_batch=512)
    context = ask(processor, "red circle", ((112, 112),))
    words = ("a", "b")
    end = processor.tokenizer.eos_token_id
    request = Request(prompt_ids=context.ids, images=context.images, seeds=tuple(range(2000)))
    sampling = Sampling(temperature=1.0, max_new_tokens=9, choices=words)
    (drawn,) = engine.generate([request], sampling)
    first = [int(processor.encode(word)[0]) for word in words]
    assert {tuple(one.ids.tolist()) for one in drawn} <= {(token, end) for token in first}
    assert all(one.finished for one in drawn)
    share = np.mean([one.ids[0] == first[0] for one in drawn])
    known = np.exp(next(float(one.logprobs[0]) for one in drawn if one.ids[0] == first[0]))
    assert abs(share - known) < 3 * (known * (1 - known) / 2000) ** 0.5
    (greedy,) = engine.generate([replace(request, seeds=(0,))], replace(sampling, temperature=0.0))
    assert int(greedy[0].ids[0]) == first[0 if known > 0.5 else 1]


def test_settings_that_cannot_work_are_refused(tiny_policy) -> None:
    processor = tiny_policy.processor
    for words, problem in (
        (["rollout.verify.limit=0"], "limit: must be >= 1"),
        (["rollout.verify.yes=maybe"], "yes: is not read as YES"),
        (["rollout.verify.no='yes'"], "no: is not read as NO"),
    ):
        with pytest.raises(ConfigError, match=problem):
            settings(*words)
    with pytest.raises(ConfigError, match=r"verify\.rethink_prompt: must not be empty"):
        settings("rollout.verify.rethink_prompt=''").build_kind(processor)
    scripted = settings("rollout/engine=scripted", "rollout.verify.decoding=choice")
    with pytest.raises(ConfigError, match=r"verify\.decoding: this engine cannot choose"):
        scripted.build_kind(processor)
