"""Training in bfloat16: steps smaller than its resolution must add up, not vanish."""

from __future__ import annotations

import copy
from dataclasses import replace

import numpy as np
import pytest
import torch
from tests.tiny import experience, learner, varied_contexts

from groundrl.learner.checkpoint import Checkpoints, load
from groundrl.learner.config import Decay, OptimConfig
from groundrl.learner.learner import Learner
from groundrl.learner.master import MasterWeights
from groundrl.models.config import LoraConfig
from groundrl.models.load import Policy
from groundrl.models.lora import inject

LR = 1e-6
"""The published learning rate."""


@pytest.fixture
def low(loaded_policy) -> Policy:
    return replace(loaded_policy, model=copy.deepcopy(loaded_policy.model).bfloat16())


def batch(policy, seed: int = 0) -> list:
    contexts = varied_contexts(policy.processor)
    return experience(
        policy.processor, contexts, lengths=(5, 9, 1, 7), advantages=(1.0, -1.0, 0.5, 2.0), seed=seed
    )


def made(policy, **changes) -> Learner:
    optim = OptimConfig(decay=Decay.constant, **changes)
    return learner(policy.model, policy.processor, lr=LR, optim=optim)


def moved(before: dict[str, torch.Tensor], after: dict[str, torch.Tensor]) -> float:
    return float(
        np.mean([float((after[n].detach().float() - v.float()).abs().mean()) for n, v in before.items()])
    )


def snapshot(parameters: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    return {name: value.detach().clone() for name, value in parameters.items()}


def test_updates_below_the_resolution_of_bfloat16_add_up(low, fresh_policy) -> None:
    """AdamW's first steps on one batch move a weight by lr each, in either precision."""
    steps = 5
    whole, rounded = made(fresh_policy), made(low)
    start, low_start = snapshot(whole.master.masters), snapshot(rounded.master.masters)
    for _ in range(steps):
        whole.step(batch(fresh_policy))
        rounded.step(batch(low))
    wanted = moved(start, whole.master.masters)
    assert wanted == pytest.approx(steps * LR, rel=0.2)
    assert moved(low_start, rounded.master.masters) == pytest.approx(wanted, rel=0.1)
    # the model holds the masters, rounded
    for name, parameter in low.model.named_parameters():
        assert parameter.dtype is torch.bfloat16
        assert torch.equal(parameter, rounded.master.masters[name].bfloat16())
    assert all(state["exp_avg"].dtype is torch.float32 for state in rounded.optimizer.state.values())


def test_enough_small_steps_reach_the_model(low) -> None:
    rounded = made(low)
    before = snapshot(rounded.master.stored)
    for master in rounded.master.copies().values():
        master.data.add_(3e-3)  # what thousands of steps would have done
    rounded.master.write_back()
    share = [float((before[n] != p).float().mean()) for n, p in rounded.master.stored.items()]
    assert np.mean(share) > 0.5


def test_gradients_are_added_up_in_float32(low) -> None:
    """256 + 1 is 256 in bfloat16: the small gradients of later micro-batches must not be lost."""
    parameter = torch.nn.Parameter(torch.ones(3, dtype=torch.bfloat16))
    frozen = torch.nn.Parameter(torch.ones(3, dtype=torch.bfloat16), requires_grad=False)
    exact = torch.nn.Parameter(torch.ones(3))
    masters = MasterWeights([("a", parameter), ("b", frozen), ("c", exact)])
    assert list(masters.masters) == ["a", "c"]
    assert masters.masters["c"] is exact
    assert list(masters.copies()) == ["a"]
    for value in (256.0, 1.0, 1.0):
        (parameter * value).sum().backward()
        masters.take_gradients()
        assert parameter.grad is None
    assert masters.masters["a"].grad.tolist() == [258.0] * 3

    norms = [
        made(replace(low, model=copy.deepcopy(low.model)), micro_batch=m).step(batch(low)) for m in (1, 64)
    ]
    assert norms[0]["learner/grad_norm"] == pytest.approx(norms[1]["learner/grad_norm"], rel=0.02)


def test_a_skipped_step_leaves_masters_and_model_alone(low) -> None:
    rounded = made(low)
    rounded.step(batch(low))
    masters, stored = snapshot(rounded.master.masters), snapshot(rounded.master.stored)
    rows = batch(low)
    rows[0].advantage = float("nan")
    assert rounded.step(rows)["learner/skipped"] == 1.0
    assert all(torch.equal(masters[n], p) for n, p in rounded.master.masters.items())
    assert all(torch.equal(stored[n], p) for n, p in rounded.master.stored.items())


@pytest.mark.parametrize("rank", [0, 4])
def test_a_resumed_run_goes_on_bit_for_bit(low, tmp_path, rank) -> None:
    torch.manual_seed(0)
    other = replace(low, model=copy.deepcopy(low.model))
    for policy in (low, other):
        inject(policy.model, policy.family, LoraConfig(rank=rank, alpha=8, dropout=0.0))
    first = made(low)
    for seed in range(2):
        first.step(batch(low, seed))
    folder = Checkpoints(tmp_path, 1).save(2, low, first, {})
    second = made(other)
    load(folder, other, second)
    masters = second.master.masters
    assert all(torch.equal(masters[n], p) for n, p in first.master.masters.items())
    assert any(
        not torch.equal(p, p.bfloat16().float()) for p in masters.values()
    )  # more than the model holds
    assert first.step(batch(low, 3)) == second.step(batch(other, 3))
    assert all(torch.equal(masters[n], p) for n, p in first.master.masters.items())
