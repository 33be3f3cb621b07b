"""Adapters, freezing and gradient checkpointing on the tiny model."""

from __future__ import annotations

import copy
from dataclasses import replace

import numpy as np
import pytest
import torch
from tests.tiny import experience, gradients, learner, scorer, varied_contexts, weights

from groundrl.errors import ConfigError
from groundrl.learner.checkpoint import save_model
from groundrl.models.config import LoraConfig
from groundrl.models.family import QWEN25_VL
from groundrl.models.load import Policy, freeze, load_policy
from groundrl.models.lora import adapter_state, adapters_off, has_adapters, inject, merged
from groundrl.rollout.engines.base import Request, Sampling
from groundrl.rollout.engines.hf_engine import HFEngine

LORA = LoraConfig(rank=4, alpha=8, dropout=0.0)


def batch(policy, **changes) -> list:
    settings = {"lengths": (3, 6, 4), "advantages": (1.0, -1.0, 0.5)} | changes
    return experience(policy.processor, varied_contexts(policy.processor), **settings)


@pytest.fixture
def adapted(fresh_policy) -> Policy:
    torch.manual_seed(0)
    inject(fresh_policy.model, fresh_policy.family, LORA)
    return fresh_policy


def logprobs(policy, model=None) -> torch.Tensor:
    model = policy.model if model is None else model
    with torch.no_grad():
        return scorer(policy.processor)(model, [entry.row for entry in batch(policy)]).logprobs


def test_every_linear_layer_of_the_decoder_and_nothing_else_gets_an_adapter(adapted) -> None:
    names = set(adapter_state(adapted.model))
    layers = ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.o_proj",
              "mlp.gate_proj", "mlp.up_proj", "mlp.down_proj")  # fmt: skip
    wanted = {
        f"model.language_model.layers.{i}.{layer}.lora_{side}.policy.weight"
        for i in range(3)
        for layer in layers
        for side in "AB"
    }
    assert names == wanted
    learning = {name for name, p in adapted.model.named_parameters() if p.requires_grad}
    assert learning == wanted


def test_training_moves_adapters_only(adapted) -> None:
    before = weights(adapted.model)
    made = learner(adapted.model, adapted.processor)
    assert sum(p.numel() for p in made.parameters) == sum(
        v.numel() for v in adapter_state(adapted.model).values()
    )
    for seed in range(2):
        made.step(batch(adapted, seed=seed))
    moved = {
        name for name, value in weights(adapted.model).items() if value.tobytes() != before[name].tobytes()
    }
    assert moved == set(adapter_state(adapted.model))


def test_without_adapters_the_policy_is_the_base_model_bit_for_bit(loaded_policy, adapted) -> None:
    base = logprobs(loaded_policy)
    assert torch.equal(logprobs(adapted), base)  # a fresh adapter is the identity
    made = learner(adapted.model, adapted.processor, lr=1e-2)
    made.step(batch(adapted))
    assert float((logprobs(adapted) - base).abs().max()) > 1e-2
    with adapters_off(adapted.model):
        assert torch.equal(logprobs(adapted), base)
    assert float((logprobs(adapted) - base).abs().max()) > 1e-2
    assert {n for n, p in adapted.model.named_parameters() if p.requires_grad} == set(
        adapter_state(adapted.model)
    )
    with pytest.raises(KeyError), adapters_off(adapted.model):
        raise KeyError("x")
    assert float((logprobs(adapted) - base).abs().max()) > 1e-2  # on again after an error


def test_the_reference_of_a_lora_run_pulls_towards_the_base(adapted) -> None:
    """With adapters off as reference, k3 is 0 at the first step and grows from there."""
    score = scorer(adapted.processor)

    def reference(rows) -> torch.Tensor:
        with adapters_off(adapted.model):
            return score(adapted.model, rows).logprobs

    made = learner(adapted.model, adapted.processor, beta=0.1, reference=reference, lr=1e-2)
    first, second = made.step(batch(adapted)), made.step(batch(adapted))
    assert first["learner/kl_ref"] == pytest.approx(0.0, abs=1e-9)
    assert second["learner/kl_ref"] > 1e-3


def test_old_log_probs_are_taken_without_dropout(loaded_policy) -> None:
    """The engine draws without dropout; a noisy old policy would make ratios of noise."""
    policy = replace(loaded_policy, model=copy.deepcopy(loaded_policy.model))
    torch.manual_seed(0)
    inject(policy.model, policy.family, replace(LORA, dropout=0.5))
    for name, parameter in policy.model.named_parameters():
        if "lora_B" in name:
            torch.nn.init.normal_(parameter.data, std=0.1)
    contexts = varied_contexts(policy.processor)[:3]
    requests = [Request(prompt_ids=c.ids, images=c.images, seeds=(1, 2)) for c in contexts]
    engine = HFEngine(policy.model, policy.processor, max_batch=64)
    drawn = engine.generate(requests, Sampling(temperature=1.0, max_new_tokens=6))
    rows = experience(policy.processor, contexts, lengths=[1] * 3, advantages=[1.0, -1.0, 0.5])
    for entry, group in zip(rows, drawn, strict=True):
        entry.row.completion = group[0].ids
        entry.selected = np.ones(len(group[0].ids), dtype=bool)
        entry.behaviour_logprobs = group[0].logprobs
    made = learner(policy.model, policy.processor, num_iterations=2, lr=0.0)
    metrics = made.step(rows)
    assert metrics["learner/mismatch_max"] < 1e-4  # old against engine
    assert metrics["learner/approx_kl"] > 1e-4  # the update itself does use dropout


def test_merged_weights_load_without_adapters(tiny_config, adapted, tmp_path) -> None:
    made = learner(adapted.model, adapted.processor, lr=1e-2)
    made.step(batch(adapted))
    save_model(adapted, tmp_path / "best")
    plain = load_policy(replace(tiny_config.model, path=str(tmp_path / "best")))
    assert not has_adapters(plain.model)
    assert not any("lora" in name or "base_layer" in name for name in plain.model.state_dict())
    plain.model.eval()
    adapted.model.eval()
    torch.testing.assert_close(logprobs(plain), logprobs(adapted), rtol=0, atol=2e-5)


def test_merging_is_the_low_rank_product(adapted) -> None:
    made = learner(adapted.model, adapted.processor, lr=1e-2)
    made.step(batch(adapted))
    key = "model.language_model.layers.1.mlp.down_proj"
    state = adapted.model.state_dict()
    delta = state[f"{key}.lora_B.policy.weight"] @ state[f"{key}.lora_A.policy.weight"] * (8 / 4)
    wanted = state[f"{key}.base_layer.weight"] + delta
    got = merged(adapted.model)
    assert float(delta.abs().max()) > 1e-4
    torch.testing.assert_close(got[f"{key}.weight"], wanted, rtol=0, atol=1e-6)
    assert got.keys() == load_keys(adapted)


def load_keys(policy) -> set[str]:
    return {n.replace(".base_layer", "") for n in policy.model.state_dict() if "lora_" not in n}


def test_rank_zero_is_no_adapter(fresh_policy) -> None:
    inject(fresh_policy.model, fresh_policy.family, LoraConfig(rank=0))
    assert not has_adapters(fresh_policy.model)
    assert all(p.requires_grad for p in fresh_policy.model.parameters())


@pytest.mark.parametrize(("vision", "projector"), [(True, False), (False, True), (True, True)])
def test_freezing_stops_exactly_the_named_parts(fresh_policy, vision, projector) -> None:
    freeze(fresh_policy.model, fresh_policy.family, vision=vision, projector=projector)

    def frozen(name: str) -> bool:
        if name.startswith("model.visual.merger."):
            return projector
        return name.startswith("model.visual.") and vision

    before = weights(fresh_policy.model)
    assert {n for n, p in fresh_policy.model.named_parameters() if not p.requires_grad} == {
        n for n in before if frozen(n)
    }
    learner(fresh_policy.model, fresh_policy.processor).step(batch(fresh_policy))
    got = gradients(fresh_policy.model)
    assert set(got) == {name for name in before if not frozen(name)}
    assert all(np.abs(value).max() > 0 for value in got.values())
    after = weights(fresh_policy.model)
    assert all((before[n].tobytes() == after[n].tobytes()) == frozen(n) for n in before)


def test_freezing_a_part_that_is_not_there_is_named(fresh_policy) -> None:
    family = replace(QWEN25_VL, projector_prefix="model.projector.")
    with pytest.raises(ConfigError, match=r"model\.freeze_projector: no parameter is named model\.projector"):
        freeze(fresh_policy.model, family, vision=False, projector=True)


@pytest.mark.parametrize("rank", [0, 4])
def test_gradient_checkpointing_gives_the_same_gradients(tiny_config, rank) -> None:
    """Dropout is on for adapters: recomputation must replay it."""
    lora = LoraConfig(rank=rank, alpha=8, dropout=0.3)
    results = []
    for on in (False, True):
        torch.manual_seed(0)
        policy = load_policy(replace(tiny_config.model, gradient_checkpointing=on, lora=lora))
        assert policy.model.is_gradient_checkpointing is on
        calls = 0

        def count(*given: object) -> None:
            nonlocal calls
            calls += 1

        policy.model.model.language_model.layers[0].self_attn.register_forward_hook(count)
        torch.manual_seed(1)
        metrics = learner(policy.model, policy.processor, lr=0.0).step(batch(policy))
        results.append((metrics["learner/loss"], gradients(policy.model), calls))
    (loss, plain, once), (again, saved, twice) = results
    assert (once, twice) == (1, 2)  # recomputed in the backward pass
    assert again == pytest.approx(loss, abs=1e-7)
    assert plain.keys() == saved.keys()
    for name, value in plain.items():
        np.testing.assert_allclose(saved[name], value, rtol=1e-4, atol=1e-6, err_msg=name)
