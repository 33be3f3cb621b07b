"""Known kinds of bug between engine and learner: settings that do not arrive, weights that are not sent, a
tower that only some processes run. B26 stands in tests/unit/rollout/test_alignment.py; B39, B42 and B49 in
tests/unit/models/test_families.py, for every family."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from tests.cli import make_cli
from tests.tiny import experience, learner, scorer, varied_contexts
from tests.unit.rollout.test_alignment import Source, written

from groundrl.config.compose import compose_run
from groundrl.config.invocation import Invocation
from groundrl.errors import ConfigError
from groundrl.models import forward
from groundrl.models.config import LoraConfig
from groundrl.models.forward import Row
from groundrl.models.lora import adapters_off, inject, merged
from groundrl.rewards.grader import Grader
from groundrl.rollout.collect import Collector
from groundrl.rollout.engines.base import Completion, Request, Sampling
from groundrl.rollout.engines.hf_engine import HFEngine
from groundrl.rollout.engines.scripted import ScriptedEngine
from groundrl.training.clock import StageClock
from groundrl.training.wiring import _learner, _method
from groundrl.world import World

WORDS = (
    "rollout.temperature=0.9",
    "rollout.top_k=5",
    "rollout.top_p=0.8",
    "rollout.max_new_tokens=7",
    "algorithm.prompts_per_step=2",
)


class Asked(ScriptedEngine):
    """Remembers how it was asked to sample."""

    given: Sampling | None = None

    def generate(self, requests: Sequence[Request], sampling: Sampling) -> list[list[Completion]]:
        self.given = sampling
        return super().generate(requests, sampling)


def test_b34_sampling_settings_reach_the_engine_and_the_learner(fresh_policy) -> None:
    config = compose_run(list(WORDS))
    engine = Asked(lambda request, number, index: written((0, 0, 9, 9)), fresh_policy.processor)
    collector = Collector(
        engine,
        fresh_policy.processor,
        config.prompt.build(),
        config.rollout.build_kind(fresh_policy.processor),
    )
    grader = Grader(config.reward.build(), config.reward.grading)
    source: Any = Source(("red", "blue"))
    method = _method(config, source, collector, grader, World())
    assert method is not None
    method.gather(0, StageClock())
    assert engine.given == Sampling(temperature=0.9, top_k=5, top_p=0.8, max_new_tokens=7)
    made = _learner(config, fresh_policy, World())
    assert made is not None
    # the learner's log-probs are those of the temperature; truncation is not scored
    assert made.scorer == replace(scorer(fresh_policy.processor), temperature=0.9)


def test_b34_sibling_a_key_that_nothing_reads_is_an_error(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "rollout.temprature" in make_cli(monkeypatch, capsys)("rollout.temprature=0.9").error
    words = ("algorithm=sft", "eval.sampled_k=0", "rollout.temperature=0.9")
    with pytest.raises(ConfigError, match=r"rollout\.temperature: would be ignored"):
        compose_run(list(words)).check(Invocation(overrides=words, experiment=None))


@pytest.fixture
def adapted(fresh_policy) -> Any:
    inject(fresh_policy.model, fresh_policy.family, LoraConfig(rank=4, alpha=8, dropout=0.05))
    return fresh_policy


def update(policy: Any) -> None:
    """One optimiser step that is felt."""
    rows = experience(
        policy.processor, varied_contexts(policy.processor), lengths=(5, 7, 3), advantages=(1.0, -1.0, 0.5)
    )
    learner(policy.model, policy.processor, lr=5e-2).step(rows)


def rows_of(policy: Any) -> list[Row]:
    rng = np.random.default_rng(1)
    return [
        Row(prompt=c.ids, images=c.images, completion=rng.integers(0, 590, size=4).astype(np.int64))
        for c in varied_contexts(policy.processor)
    ]


def logprobs(policy: Any, model: Any) -> torch.Tensor:
    model.eval()
    with torch.no_grad():
        return scorer(policy.processor)(model, rows_of(policy)).logprobs


class Spelled(ScriptedEngine):
    """Answers letter by letter, as a policy may and its tokenizer never would."""

    def generate(self, requests: Sequence[Request], sampling: Sampling) -> list[list[Completion]]:
        tokenizer = self.processor.tokenizer
        ids = np.array([*tokenizer.convert_tokens_to_ids(list("circle")), tokenizer.eos_token_id])
        logprobs = -np.arange(1, len(ids) + 1, dtype=np.float32)
        return [
            [Completion(ids=ids, logprobs=logprobs, finished=True) for _ in request.seeds]
            for request in requests
        ]


def spelled(fresh_policy: Any, group_size: int = 2) -> Any:
    """One step's experience of it."""
    config = compose_run(["algorithm.prompts_per_step=2", f"algorithm.group_size={group_size}"])
    engine = Spelled(lambda request, number, index: "", fresh_policy.processor)
    collector = Collector(
        engine,
        fresh_policy.processor,
        config.prompt.build(),
        config.rollout.build_kind(fresh_policy.processor),
    )
    source: Any = Source(("red", "blue"))
    method = _method(config, source, collector, Grader(config.reward.build(), config.reward.grading), World())
    assert method is not None
    return method.gather(0, StageClock())


def test_b36_the_learner_gets_the_sampled_ids_and_not_those_of_their_text(fresh_policy) -> None:
    processor = fresh_policy.processor
    wanted = [*processor.tokenizer.convert_tokens_to_ids(list("circle")), processor.tokenizer.eos_token_id]
    assert len(processor.encode("circle")) == 1  # encoding the text again would merge the six
    gathered = spelled(fresh_policy)
    assert len(gathered.experience) == 4
    for row, entry in zip(gathered.experience, gathered.scored, strict=True):
        assert row.row.completion.tolist() == wanted
        assert entry.rollout.text == "circle"


def test_b36_sibling_log_probs_and_selection_stay_with_their_tokens(fresh_policy) -> None:
    for row in spelled(fresh_policy, group_size=3).experience:
        assert row.behaviour_logprobs.tolist() == [-1, -2, -3, -4, -5, -6, -7]
        assert row.selected.all()
        assert len(row.row.completion) == 7


@pytest.mark.parametrize("name", ["fresh_policy", "adapted"])
def test_b37_after_an_update_the_engine_draws_with_the_new_weights(name, request) -> None:
    policy = request.getfixturevalue(name)
    engine = HFEngine(policy.model, policy.processor, max_batch=8)
    before = logprobs(policy, policy.model)
    update(policy)
    engine.sync_weights(policy.model)
    assert float((logprobs(policy, policy.model) - before).abs().max()) > 1e-3
    requests = [
        Request(prompt_ids=c.ids, images=c.images, seeds=(n,))
        for n, c in enumerate(varied_contexts(policy.processor))
    ]
    drawn = engine.generate(requests, Sampling(temperature=1.0, max_new_tokens=6))
    for asked, (completion,) in zip(requests, drawn, strict=True):
        row = Row(prompt=asked.prompt_ids, images=asked.images, completion=completion.ids)
        with torch.no_grad():
            own = scorer(policy.processor)(policy.model, [row]).logprobs[0].numpy()
        np.testing.assert_allclose(completion.logprobs, own, atol=1e-4)


def test_b37_sibling_the_reference_stays_where_it_was_and_merged_weights_are_the_policy(
    loaded_policy, adapted
) -> None:
    """Also after the weights were merged for somebody else: merging in place would move the reference."""
    base = logprobs(loaded_policy, loaded_policy.model)
    update(adapted)
    weights = merged(adapted.model)
    other = copy.deepcopy(loaded_policy.model)
    other.load_state_dict(weights)
    torch.testing.assert_close(logprobs(adapted, other), logprobs(adapted, adapted.model), rtol=0, atol=1e-4)
    with adapters_off(adapted.model):
        assert torch.equal(logprobs(adapted, adapted.model), base)
    assert float((logprobs(adapted, adapted.model) - base).abs().max()) > 1e-3


def gradients(policy: Any, contexts: Sequence[Any]) -> dict[str, Any]:
    policy.model.zero_grad(set_to_none=True)
    rows = [Row(prompt=c.ids, images=c.images, completion=np.arange(3, dtype=np.int64)) for c in contexts]
    scorer(policy.processor)(policy.model, rows).logprobs.sum().backward()
    return {name: parameter.grad for name, parameter in policy.model.named_parameters()}


def test_b41_a_process_without_pictures_runs_the_tower_and_adds_nothing(fresh_policy, monkeypatch) -> None:
    """Sharded, every process must gather the tower's weights, or the others wait for ever."""
    text = [context for context in varied_contexts(fresh_policy.processor) if not context.images]
    plain = gradients(fresh_policy, text)
    assert all(grad is None for name, grad in plain.items() if "visual" in name)
    monkeypatch.setattr(forward, "is_sharded", lambda model: True)
    sharded = gradients(fresh_policy, text)
    for name, grad in sharded.items():
        assert grad is not None, name
        if "visual" in name:
            assert not grad.any(), name
        else:
            assert torch.equal(grad, plain[name]), name


def test_b41_sibling_a_mixed_batch_runs_it_once_for_its_pictures(fresh_policy, monkeypatch) -> None:
    contexts = varied_contexts(fresh_policy.processor)
    assert {bool(context.images) for context in contexts} == {True, False}
    plain = gradients(fresh_policy, contexts)
    monkeypatch.setattr(forward, "is_sharded", lambda model: True)
    sharded = gradients(fresh_policy, contexts)
    for name, grad in sharded.items():
        assert torch.equal(grad, plain[name]), name
