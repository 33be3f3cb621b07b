"""Known kinds of bug about objectives: groups without signal, empty masks, length bias, accumulation, and an
engine whose probabilities are not the learner's."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from tests.golden.test_learner_vectors import Settings, Table, rows, table_learner
from torch import Tensor

from groundrl.advantages.base import Advantage
from groundrl.advantages.group_norm import GroupNorm
from groundrl.advantages.mean_baseline import MeanBaseline
from groundrl.advantages.rloo import RLOO
from groundrl.advantages.spread import groups_with_signal
from groundrl.learner.config import Decay, OptimConfig
from groundrl.learner.logprobs import TokenScores
from groundrl.learner.objective import Batch, PolicyObjective
from groundrl.losses.config import (
    CISPOConfig,
    ClipConfig,
    GSPOConfig,
    LossConfig,
    Normalisation,
    ReinforceConfig,
)
from groundrl.losses.correction import Correction, Mask, Truncate
from groundrl.losses.normalise import token_weights

LOSSES = [ClipConfig(), GSPOConfig(), CISPOConfig(), ReinforceConfig()]
CORRECTIONS = [None, Truncate(cap=2.0), Mask(low=0.5, high=5.0)]


def kind(value: object) -> str:
    return type(value).__name__


@pytest.mark.parametrize("advantage", [GroupNorm(1e-4), MeanBaseline(), RLOO()], ids=kind)
def test_b29_four_equal_rewards_are_exactly_no_signal(advantage: Advantage) -> None:
    got = advantage.assign(np.full(4, 0.1 + 0.2), np.zeros(4, dtype=np.int64))
    assert (got.advantages == 0.0).all()
    assert got.zero_spread == 1.0


@pytest.mark.parametrize("loss", LOSSES, ids=kind)
def test_b29_sibling_flat_groups_move_no_weight(loss: LossConfig) -> None:
    """Not even by rounding: Adam would make a full step of a gradient of 1e-20."""
    batch = rows()
    for row in batch:
        row.advantage = 0.0
    model = Table(0)
    learner = table_learner(model, Settings(), lr=0.1, num_iterations=2)
    learner.objective = PolicyObjective(term=loss.build())
    assert learner.step(batch)["learner/grad_norm"] == 0.0
    assert torch.equal(model.logits, Table(0).logits)


def test_b29_sibling_groups_to_replace_are_flat_missing_or_alone() -> None:
    nan = float("nan")
    rewards = np.array([0.3, 0.1 + 0.2, 1.0, 0.0, nan, nan, nan, 1.0, nan, 1.0, 0.0])
    groups = np.array([0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 4])
    assert groups_with_signal(rewards, groups) == {1, 4}


@pytest.mark.parametrize("mode", list(Normalisation))
@pytest.mark.parametrize("loss", LOSSES, ids=kind)
@pytest.mark.parametrize("correction", CORRECTIONS, ids=kind)
def test_b30_a_mask_of_zeros_is_a_loss_of_zero(
    mode: Normalisation, loss: LossConfig, correction: Correction | None
) -> None:
    batch = rows()
    for row in batch:
        row.selected[:] = False
        row.behaviour_logprobs[:] = np.nan
    model = Table(0)
    learner = table_learner(model, Settings(mode=mode), lr=0.1)
    learner.objective = PolicyObjective(term=loss.build(), correction=correction)
    metrics = learner.step(batch)
    assert metrics["learner/loss"] == metrics["learner/skipped"] == 0.0
    assert all(math.isfinite(value) for value in metrics.values())
    assert torch.equal(model.logits, Table(0).logits)


@pytest.mark.parametrize("loss", LOSSES, ids=kind)
@pytest.mark.parametrize("correction", CORRECTIONS, ids=kind)
def test_b30_sibling_one_empty_row_poisons_no_other(loss: LossConfig, correction: Correction | None) -> None:
    """Row 4 has no selected token, and what is not selected has no engine log-prob (nan)."""
    model = Table(0)
    learner = table_learner(model, Settings(), lr=0.0)
    learner.objective = PolicyObjective(term=loss.build(), correction=correction)
    learner.step(rows())
    assert model.logits.grad is not None
    assert torch.isfinite(model.logits.grad).all()
    assert float(model.logits.grad[4].abs().sum()) == 0.0
    assert float(model.logits.grad.abs().sum()) > 1e-3


def test_b31_one_long_and_one_short_right_answer() -> None:
    """Of 30 and 3 tokens: a token of the short one weighs ten times as much under sequence_mean, and the same
    under the two others."""
    counts, owners = np.array([30, 3]), np.array([0, 1])
    weights = {mode: token_weights(counts, owners, mode, 40) for mode in Normalisation}
    assert weights[Normalisation.sequence_mean] == pytest.approx([1 / 60, 1 / 6])
    assert weights[Normalisation.token_mean] == pytest.approx([1 / 33, 1 / 33])
    assert weights[Normalisation.constant] == pytest.approx([1 / 80, 1 / 80])


def test_b31_sibling_constant_does_not_depend_on_other_answers() -> None:
    """Under token_mean a neighbour that grows weighs everybody down; under constant it does not."""
    for mode, same in ((Normalisation.constant, True), (Normalisation.token_mean, False)):
        short, grown = (token_weights(np.array([n, 3]), np.array([0, 1]), mode, 40)[1] for n in (5, 30))
        assert bool(short == grown) is same


@pytest.mark.parametrize("mode", list(Normalisation))
@pytest.mark.parametrize("loss", LOSSES, ids=kind)
def test_b32_accumulation_equals_one_batch(mode: Normalisation, loss: LossConfig) -> None:
    def gradient(micro: int) -> Tensor:
        model = Table(0)
        optim = OptimConfig(decay=Decay.constant, max_grad_norm=1e9, micro_batch=micro)
        learner = table_learner(model, Settings(mode=mode), lr=0.0, optim=optim)
        learner.objective = PolicyObjective(term=loss.build(), correction=Truncate(cap=2.0))
        learner.step(rows())
        assert model.logits.grad is not None
        return model.logits.grad

    whole = gradient(64)
    assert float(whole.abs().max()) > 1e-3
    for micro in (1, 2, 5):
        torch.testing.assert_close(gradient(micro), whole, rtol=1e-6, atol=1e-12)


def test_b32_sibling_the_share_of_limited_tokens_survives_accumulation() -> None:
    """Engine log-probs of -9 make every ratio huge, so all tokens are capped, in however many pieces."""
    for micro in (1, 3, 64):
        batch = rows()
        for row in batch:
            row.behaviour_logprobs[row.selected] = -9.0
        optim = OptimConfig(decay=Decay.constant, max_grad_norm=1e9, micro_batch=micro)
        learner = table_learner(Table(0), Settings(), lr=0.0, optim=optim)
        learner.objective = PolicyObjective(term=ClipConfig().build(), correction=Truncate(cap=2.0))
        assert learner.step(batch)["learner/correction_frac"] == 1.0


REWARDS = torch.tensor([1.0, 0.0, 0.3, -0.5, 0.8], dtype=torch.float64)
"""Of a bandit with five arms."""


def bandit(
    gap: list[float], correction: Correction | None, loss: LossConfig | None = None
) -> tuple[Tensor, Tensor, dict[str, Any]]:
    """The exact gradient, the expected gradient under the engine's draws, and the metrics.

    The learner's policy is a softmax over logits; the engine's has `gap` added to them. Each arm is a row of
    one token, weighed by the probability that the engine draws it, so nothing is left to chance. Exact:
    - d/d logits of sum over a of p(a) A(a), whose gradient is - p (A - sum p A).
    """
    logits = torch.tensor([0.5, -0.2, 0.0, 0.9, -1.0], dtype=torch.float64, requires_grad=True)
    logprobs = torch.log_softmax(logits, 0)
    drawn = torch.log_softmax(logits.detach() + torch.tensor(gap, dtype=torch.float64), 0)
    p = logprobs.detach().exp()
    advantages = REWARDS - (p * REWARDS).sum()
    ones = torch.ones(5, 1, dtype=torch.bool)
    batch = Batch(
        selected=ones,
        weights=drawn.exp()[:, None],
        advantages=advantages,
        behaviour_logprobs=drawn[:, None],
        old_logprobs=None,
        reference_logprobs=None,
    )
    scores = TokenScores(
        logprobs=logprobs[:, None], entropy=torch.zeros(5, 1, dtype=torch.float64), mask=ones
    )
    objective = PolicyObjective(term=(loss or ClipConfig()).build(), correction=correction)
    value, sums = objective(scores, batch)
    value.backward()
    assert logits.grad is not None
    exact = -p * (advantages - (p * advantages).sum())
    return exact, logits.grad, {name: float(term) for name, term in sums.items()}


SMALL = [0.3, -0.2, 0.0, -0.3, 0.2]
LARGE = [0.0, 0.0, 0.0, 0.0, 4.0]
"""The last arm, which the learner hardly likes, is the engine's favourite: ratio 0.18 there, 4.5 elsewhere
relative to it."""


@pytest.mark.parametrize("loss", LOSSES, ids=kind)
def test_b35_a_gap_biases_the_gradient_and_is_measured(loss: LossConfig) -> None:
    exact, same, none = bandit([0.0] * 5, None, loss)
    torch.testing.assert_close(same, exact, rtol=1e-12, atol=1e-15)
    assert none["mismatch_kl"] == pytest.approx(0.0, abs=1e-15)
    _, small_gradient, small = bandit(SMALL, None, loss)
    _, large_gradient, large = bandit(LARGE, None, loss)
    assert 0.0 < small["mismatch_kl"] < large["mismatch_kl"]
    assert 0.0 < small["max/mismatch_max"] < large["max/mismatch_max"]
    assert 0.01 < float((small_gradient - exact).norm()) < float((large_gradient - exact).norm())
    assert large["correction_frac"] == 0.0


@pytest.mark.parametrize("loss", LOSSES, ids=kind)
@pytest.mark.parametrize("correction", CORRECTIONS[1:], ids=kind)
def test_b35_correction_restores_the_exact_gradient_inside_its_bounds(
    loss: LossConfig, correction: Correction
) -> None:
    exact, corrected, sums = bandit(SMALL, correction, loss)
    torch.testing.assert_close(corrected, exact, rtol=1e-12, atol=1e-15)
    assert sums["correction_frac"] == 0.0


@pytest.mark.parametrize(("correction", "limited"), [(Truncate(cap=2.0), 4), (Mask(low=0.5, high=9.0), 1)])
def test_b35_sibling_bounded_correction_is_nearer_than_none(correction: Correction, limited: int) -> None:
    """LARGE by hand: the engine's normaliser grows from 5.54 to 5.54 + 0.368 * (e^4 - 1) = 25.3, so the ratio
    is 4.56 for four arms and 4.56 / e^4 = 0.084 for the last: four are capped at 2, one is masked."""
    exact, plain, _ = bandit(LARGE, None)
    _, corrected, sums = bandit(LARGE, correction)
    assert sums["correction_frac"] == limited
    assert float((corrected - exact).norm()) < 0.75 * float((plain - exact).norm())


@pytest.mark.parametrize("loss", LOSSES, ids=kind)
@pytest.mark.parametrize("correction", CORRECTIONS[1:], ids=kind)
def test_b35_sibling_without_a_gap_nothing_changes_bit_for_bit(
    loss: LossConfig, correction: Correction
) -> None:
    """Two updates a batch; engine log-probs are exactly those of the learner when it drew."""
    models = [Table(0), Table(0)]
    start = table_learner(Table(0), Settings())
    for model, used in zip(models, (None, correction), strict=True):
        batch = rows()
        for row in batch:
            row.behaviour_logprobs = start._policy_logprobs([row.row])[0].detach().numpy()
        learner = table_learner(model, Settings(), lr=0.25, num_iterations=2)
        learner.objective = PolicyObjective(term=loss.build(), correction=used)
        learner.step(batch)
    assert torch.equal(models[0].logits, models[1].logits)
    assert not torch.equal(models[0].logits, Table(0).logits)
