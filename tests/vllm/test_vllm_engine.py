"""vLLM and the learner are one policy: same tokens, same log-probs, before and after weights are pushed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from tests.tiny import SIZES, ask, experience, learner, picture, scorer, varied_contexts

from groundrl.config.compose import compose_run
from groundrl.errors import ConfigError, EngineError
from groundrl.models.config import LoraConfig
from groundrl.models.family import QWEN25_VL
from groundrl.models.forward import Row
from groundrl.models.lora import inject
from groundrl.prompting.prompt import PromptConfig
from groundrl.rollout.collect import Collector
from groundrl.rollout.engines.base import Completion, Given, Request, Sampling
from groundrl.rollout.engines.hf_engine import HFEngine
from groundrl.rollout.engines.vllm_prompt import as_prompt
from groundrl.rollout.episode import Context
from groundrl.types import Role, Sample, Task, Truth

WARM = Sampling(temperature=1.0, max_new_tokens=24)
GREEDY = Sampling(temperature=0.0, max_new_tokens=24)


def requests(contexts: Sequence[Context], seeds: tuple[int, ...] = (1, 2)) -> list[Request]:
    return [Request(prompt_ids=c.ids, images=c.images, seeds=seeds) for c in contexts]


def texts(made: list[list[Completion]]) -> list[list[list[int]]]:
    return [[one.ids.tolist() for one in row] for row in made]


def gap(model: Any, processor: Any, contexts: Sequence[Context], made: Any, temperature: float) -> float:
    """Largest difference from the learner's log-probs of the same tokens, over all tokens."""
    pairs = [(context, one) for context, row in zip(contexts, made, strict=True) for one in row]
    rows = [Row(prompt=c.ids, images=c.images, completion=one.ids) for c, one in pairs]
    with torch.no_grad():
        scores = scorer(processor, temperature)(model, rows).logprobs.numpy()
    return max(
        float(np.abs(scores[b, : len(one.ids)] - one.logprobs).max()) for b, (_, one) in enumerate(pairs)
    )


@pytest.mark.parametrize("temperature", [1.0, 0.7, 1.3])
def test_log_probs_are_the_learners(engine, tiny_policy, temperature) -> None:
    """Prompts of unequal length with pictures of unequal size, two pictures, none."""
    contexts = varied_contexts(tiny_policy.processor)
    made = engine.generate(requests(contexts), Sampling(temperature=temperature, max_new_tokens=24))
    assert gap(tiny_policy.model, tiny_policy.processor, contexts, made, temperature) < 1e-4
    assert gap(tiny_policy.model, tiny_policy.processor, contexts, made, temperature + 0.5) > 0.05


def test_greedy_is_the_hf_engines_greedy(engine, tiny_policy) -> None:
    contexts = varied_contexts(tiny_policy.processor)
    plain = HFEngine(tiny_policy.model, tiny_policy.processor, max_batch=64)
    ours = plain.generate(requests(contexts, (0,)), GREEDY)
    made = engine.generate(requests(contexts, (0,)), GREEDY)
    assert texts(made) == texts(ours)
    assert [row[0].finished for row in made] == [row[0].finished for row in ours]
    assert len({tuple(row[0].ids.tolist()) for row in made}) > 1
    assert gap(tiny_policy.model, tiny_policy.processor, contexts, made, 1.0) < 1e-4


def test_a_completion_depends_on_its_seed_and_not_on_the_batch(engine, tiny_policy) -> None:
    contexts = varied_contexts(tiny_policy.processor)
    hot = Sampling(temperature=1.5, max_new_tokens=16)
    seeds = (3, 2**64 - 1, 4)
    made = engine.generate(requests(contexts, seeds), hot)
    again = engine.generate(requests(contexts[::-1], seeds), hot)[::-1]
    alone = engine.generate(requests(contexts[3:4], seeds[::-1]), hot)
    assert texts(again) == texts(made)
    assert [one.ids.tolist() for one in alone[0]][::-1] == texts(made)[3]
    assert texts(made)[3][0] != texts(made)[3][1]


def test_a_cut_completion_is_not_finished_and_an_ended_one_holds_its_end_token(engine, tiny_policy) -> None:
    contexts = varied_contexts(tiny_policy.processor)[:1]
    (short,) = engine.generate(requests(contexts, (0,)), replace(GREEDY, max_new_tokens=3))[0]
    (whole,) = engine.generate(requests(contexts, (0,)), replace(GREEDY, max_new_tokens=48))[0]
    assert (len(short.ids), short.finished) == (3, False)
    assert whole.finished
    assert [int(i) in tiny_policy.processor.eos_ids for i in whole.ids] == [False] * (len(whole.ids) - 1) + [
        True
    ]


def test_placeholders_are_never_drawn_though_the_model_wants_them(engine, fresh_policy) -> None:
    """The output layer repeats the rows of two placeholders' rivals, made three times as long: unbanned,
    one of them would be drawn nearly always."""
    processor = fresh_policy.processor
    with torch.no_grad():
        head = fresh_policy.model.lm_head.weight
        favourite = 3 * head.abs().amax(0) * head.mean(0).sign()
        head[list(processor.banned_ids)] = favourite
    contexts = varied_contexts(processor)
    engine.sync_weights(fresh_policy.model)
    made = engine.generate(requests(contexts, tuple(range(8))), replace(WARM, temperature=2.0))
    drawn = np.concatenate([one.ids for row in made for one in row])
    assert len(drawn) > 300
    assert not np.isin(drawn, processor.banned_ids).any()
    assert gap(fresh_policy.model, processor, contexts, made, 2.0) < 1e-4


def test_score_is_the_hf_engines(engine, tiny_policy) -> None:
    """At temperature 1 over the whole vocabulary, for tokens that nobody drew."""
    contexts = varied_contexts(tiny_policy.processor)
    rng = np.random.default_rng(0)
    given = [
        Given(prompt_ids=c.ids, images=c.images, completion_ids=rng.integers(0, 590, size=5 + n))
        for n, c in enumerate(contexts)
    ]
    plain = HFEngine(tiny_policy.model, tiny_policy.processor, max_batch=2).score(given)
    for ours, theirs in zip(plain, engine.score(given), strict=True):
        assert ours.shape == theirs.shape
        np.testing.assert_allclose(theirs, ours, atol=1e-4)


def trained(policy: Any) -> Any:
    """The policy after two large learner steps."""
    rows = experience(
        policy.processor,
        varied_contexts(policy.processor),
        lengths=(6, 8, 5, 7, 6),
        advantages=(1.0, -1.0, 0.5, 1.0, -0.5),
    )
    work = learner(policy.model, policy.processor, lr=5e-3)
    for _ in range(2):
        work.step(rows)
    policy.model.eval()
    return policy


@pytest.mark.parametrize("through_files", [False, True])
def test_pushed_weights_are_the_learners(engine, fresh_policy, through_files) -> None:
    contexts = varied_contexts(fresh_policy.processor)
    before = engine.generate(requests(contexts), WARM)
    trained(fresh_policy)
    assert gap(fresh_policy.model, fresh_policy.processor, contexts, before, 1.0) > 0.1
    engine.through_files = through_files
    engine.sync_weights(fresh_policy.model)
    made = engine.generate(requests(contexts), WARM)
    assert gap(fresh_policy.model, fresh_policy.processor, contexts, made, 1.0) < 1e-4
    plain = HFEngine(fresh_policy.model, fresh_policy.processor, max_batch=64)
    assert texts(engine.generate(requests(contexts), GREEDY)) == texts(
        plain.generate(requests(contexts), GREEDY)
    )


def test_without_emptying_the_caches_old_keys_and_values_are_used(engine, fresh_policy, monkeypatch) -> None:
    """What `sync_weights` is for: the same push, caches kept, gives other log-probs than the learner."""
    # longer than the blocks of 128 tokens that are cached; no picture, so only that cache is at work
    contexts = [ask(fresh_policy.processor, "red circle " * 100)]
    assert len(contexts[0].ids) > 200
    engine.generate(requests(contexts), WARM)
    trained(fresh_policy)
    with monkeypatch.context() as patch:
        patch.setattr(engine, "reset_caches", lambda: None)
        engine.sync_weights(fresh_policy.model)
    stale = engine.generate(requests(contexts), WARM)
    assert gap(fresh_policy.model, fresh_policy.processor, contexts, stale, 1.0) > 1e-2
    engine.reset_caches()
    made = engine.generate(requests(contexts), WARM)
    assert gap(fresh_policy.model, fresh_policy.processor, contexts, made, 1.0) < 1e-4


def test_adapters_are_merged(engine, fresh_policy) -> None:
    model, processor = fresh_policy.model, fresh_policy.processor
    inject(model, QWEN25_VL, LoraConfig(rank=4, alpha=8, dropout=0.0))
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for name, value in model.named_parameters():
            if "lora_B" in name:
                value.copy_(torch.randn(value.shape, generator=generator) * 0.05)
    contexts = varied_contexts(processor)
    before = engine.generate(requests(contexts), WARM)
    assert gap(model, processor, contexts, before, 1.0) > 0.05
    engine.sync_weights(model)
    made = engine.generate(requests(contexts), WARM)
    assert gap(model, processor, contexts, made, 1.0) < 1e-4


def test_an_image_processor_that_disagrees_is_an_error(engine, tiny_policy, monkeypatch) -> None:
    """A picture of another size than the one our prompt was made for gives another number of tokens."""
    processor = tiny_policy.processor
    context = ask(processor, "red circle", ((112, 112),))
    other = ask(processor, "red circle", ((112, 168),))
    monkeypatch.setattr(
        "groundrl.rollout.engines.vllm_engine.as_prompt",
        lambda ids, images, owner: as_prompt(ids, other.images, owner),
    )
    with pytest.raises(ValueError, match="does not agree with ours"):
        engine.generate(requests([context]), GREEDY)


def test_what_the_engine_was_not_made_for_is_refused(engine, tiny_policy) -> None:
    contexts = varied_contexts(tiny_policy.processor)
    with pytest.raises(ConfigError, match=r"rollout\.engine\.max_model_len: .*got 512"):
        engine.generate(requests(contexts), replace(GREEDY, max_new_tokens=500))
    many = ask(tiny_policy.processor, "red circle", ((56, 56),) * 5)
    with pytest.raises(ConfigError, match=r"rollout\.engine\.max_images: a prompt has 5 images, got 4"):
        engine.generate(requests([many]), GREEDY)
    with pytest.raises(ConfigError, match="untruncated"):
        engine.generate(requests(contexts), replace(WARM, top_k=5))


def test_a_call_that_takes_too_long_names_its_stage_and_leaves_the_engine_usable(
    engine, tiny_policy, monkeypatch
) -> None:
    contexts = varied_contexts(tiny_policy.processor)
    monkeypatch.setattr(engine, "config", replace(engine.config, timeout_s=1e-9))
    with pytest.raises(
        EngineError, match=r"vllm: generate took longer than 1e-09 s with 0 of 10 requests done"
    ):
        engine.generate(requests(contexts), WARM)
    monkeypatch.undo()
    assert not engine.llm.llm_engine.has_unfinished_requests()
    made = engine.generate(requests(contexts), GREEDY)
    assert gap(tiny_policy.model, tiny_policy.processor, contexts, made, 1.0) < 1e-4


def test_completions_of_one_prompt_share_its_computation(engine, tiny_policy, monkeypatch) -> None:
    """Of 204 or more prompt tokens, the first block of 128 is computed once; the first asker finds none."""
    contexts = [ask(tiny_policy.processor, "red circle " * 100, ((112, 112),))]
    seen: list[int] = []
    plain = engine._completion

    def counted(request: Request, output: Any) -> Completion:
        seen.append(output.num_cached_tokens)
        return plain(request, output)

    monkeypatch.setattr(engine, "_completion", counted)
    engine.reset_caches()
    engine.generate(requests(contexts, (1, 2, 3)), WARM)
    assert seen == [0, 128, 128]
    engine.generate(requests(contexts, (4,)), WARM)
    engine.reset_caches()
    engine.generate(requests(contexts, (5,)), WARM)
    assert seen[3:] == [128, 0]


def check_choices(made: Sequence[Sequence[Completion]], processor: Any) -> list[str]:
    """The texts that were chosen, after a check that each is one of the two and ended."""
    drawn = [processor.decode(one.ids) for row in made for one in row]
    assert set(drawn) <= {"<YES>", "<NO>"}
    assert all(one.finished for row in made for one in row)
    assert all(int(one.ids[-1]) in processor.eos_ids for row in made for one in row)
    return drawn


def test_a_completion_can_be_held_to_texts(engine, tiny_policy) -> None:
    """Which the untaught tiny model never writes by itself."""
    contexts = varied_contexts(tiny_policy.processor)
    choosing = replace(WARM, choices=("<YES>", "<NO>"))
    drawn = check_choices(
        engine.generate(requests(contexts, tuple(range(8))), choosing), tiny_policy.processor
    )
    assert len(set(drawn)) == 2
    again = engine.generate(requests(contexts, tuple(range(8))), choosing)
    assert check_choices(again, tiny_policy.processor) == drawn
    free = engine.generate(requests(contexts, (0,)), WARM)
    assert not any("YES" in tiny_policy.processor.decode(row[0].ids) for row in free)


def test_conversations_go_through_the_engine(engine, tiny_policy) -> None:
    """Answers, verdicts and second answers: every sampled token has the learner's log-prob in its place."""
    processor = tiny_policy.processor
    config = compose_run(["rollout=self_verify", "rollout/engine=vllm"]).rollout
    kind = config.build_kind(processor)
    collector = Collector(engine, processor, PromptConfig().build(), kind, limit=512)
    samples = [
        Sample(
            id=f"s{n}",
            task=Task.text,
            images=tuple(picture(size, 5 * n + m) for m, size in enumerate(sizes)),
            truth=Truth(answer="a"),
            question="red circle",
        )
        for n, sizes in enumerate(SIZES)
    ]
    rollouts = collector.collect(samples, 3, Sampling(temperature=1.0, max_new_tokens=40), seed=(2,))
    several = [rollout for rollout in rollouts if rollout.turns > 2]
    assert len(several) >= 3
    for rollout in rollouts:
        (segment,) = rollout.segments
        row = Row(prompt=segment.prompt_ids, images=segment.images, completion=segment.response_ids)
        with torch.no_grad():
            scores = scorer(processor, 1.0)(tiny_policy.model, [row]).logprobs[0].numpy()
        answered = segment.roles == Role.STUDENT
        known = segment.behaviour_logprobs[answered]
        np.testing.assert_allclose(scores[: len(answered)][answered], known, atol=1e-4)
