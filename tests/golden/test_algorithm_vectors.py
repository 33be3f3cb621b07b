"""Every advantage, policy term and correction against numbers worked out by hand, gradients included."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from groundrl.advantages.base import Advantage
from groundrl.advantages.group_norm import GroupNorm
from groundrl.advantages.mean_baseline import MeanBaseline
from groundrl.advantages.rloo import RLOO
from groundrl.config.compose import compose_run
from groundrl.errors import ConfigError
from groundrl.losses.config import CISPOConfig, ClipConfig, GSPOConfig, LossConfig, ReinforceConfig
from groundrl.losses.correction import Mask, Truncate
from groundrl.losses.correction_config import MaskConfig, NoCorrectionConfig, TISConfig
from groundrl.losses.term import PolicyTerm, Term

NAN = float("nan")
ADVANTAGES = [GroupNorm(1e-4), MeanBaseline(), RLOO()]


@pytest.mark.parametrize(
    ("advantage", "wanted"),
    [
        # rewards 1, 0, 0.2: mean 0.4, gaps 0.6, -0.4, -0.2; std = sqrt((0.36 + 0.16 + 0.04) / 2) = 0.52915026
        (GroupNorm(1e-4), [0.6 / 0.52925026, -0.4 / 0.52925026, -0.2 / 0.52925026]),
        (MeanBaseline(), [0.6, -0.4, -0.2]),
        # others' means: (0 + 0.2) / 2 = 0.1, (1 + 0.2) / 2 = 0.6, (1 + 0) / 2 = 0.5
        (RLOO(), [0.9, -0.6, -0.3]),
    ],
)
def test_advantages(advantage: Advantage, wanted: list[float]) -> None:
    """Beside the group of three: a missing reward inside it, a flat group, and a group with one reward."""
    rewards = np.array([1.0, 0.3, NAN, 0.0, 0.1 + 0.2, 0.2, 7.0, NAN])
    groups = np.array([5, 2, 5, 5, 2, 5, 9, 9])
    got = advantage.assign(rewards, groups)
    assert got.advantages[[0, 3, 5]] == pytest.approx(wanted, abs=1e-8)
    assert (got.advantages[[1, 2, 4, 6, 7]] == 0.0).all()
    assert got.zero_spread == 0.5


@pytest.mark.parametrize("advantage", ADVANTAGES)
@pytest.mark.parametrize("rewards", [[0.1 + 0.2, 0.3], [0.1] * 1000, [1e8 + 1e-8, 1e8], [-3.3, -3.3, NAN]])
def test_no_spread_is_exactly_zero(advantage: Advantage, rewards: list[float]) -> None:
    got = advantage.assign(np.array(rewards), np.zeros(len(rewards), dtype=np.int64))
    assert (got.advantages == 0.0).all()
    assert got.zero_spread == 1.0


def evaluate(
    term: Term, ratios: list[float], advantage: float, selected: list[bool] | None = None
) -> tuple[PolicyTerm, list[float]]:
    """The term of one row whose present log-probs are all -2, and d (sum over selected) / d logprob."""
    logprobs = torch.full((1, len(ratios)), -2.0, dtype=torch.float64, requires_grad=True)
    old = torch.tensor([[-2.0 - math.log(ratio) for ratio in ratios]], dtype=torch.float64)
    chosen = torch.tensor([selected or [True] * len(ratios)])
    made = term(logprobs, old, torch.tensor([advantage], dtype=torch.float64), chosen)
    torch.where(chosen, made.loss, torch.zeros_like(made.loss)).sum().backward()
    assert logprobs.grad is not None
    return made, logprobs.grad[0].tolist()


def flags(value: Tensor) -> list[bool]:
    return value[0].tolist()


ROOT = math.sqrt(0.72)
"""exp of the mean log of 1.2 and 0.6: 0.84852814."""


@pytest.mark.parametrize(
    ("ratios", "advantage", "loss", "slope", "low", "high"),
    [
        # below 0.9 and good: not cut. Each of the two tokens holds -s A; each slope is the sum over both
        # values of -s A / 2, that is -s A
        ([1.2, 0.6], 2.0, -2 * ROOT, -2 * ROOT, False, False),
        # below 0.9 and bad: min(-2 s, -2 * 0.9) = -1.8
        ([1.2, 0.6], -2.0, 1.8, 0.0, True, False),
        # s = sqrt(1.5 * 1.2) = 1.3416 > 1.1 and good: 1.1 * 2
        ([1.5, 1.2], 2.0, -2.2, 0.0, False, True),
        ([1.5, 1.2], -2.0, 2 * math.sqrt(1.8), 2 * math.sqrt(1.8), False, False),
        # one token far off, the sequence in range: 1.6 * 0.625 = 1
        ([1.6, 0.625], 2.0, -2.0, -2.0, False, False),
    ],
)
def test_gspo(ratios, advantage, loss, slope, low, high) -> None:
    term = GSPOConfig(clip_low=0.1, clip_high=0.1).build()
    made, grad = evaluate(term, ratios, advantage)
    assert made.loss[0].tolist() == pytest.approx([loss, loss], abs=1e-9)
    assert grad == pytest.approx([slope, slope], abs=1e-9)
    assert flags(made.clipped_low) == [low, low]
    assert flags(made.clipped_high) == [high, high]


def test_gspo_counts_selected_tokens_only() -> None:
    """Of three tokens the middle one was inserted: s = sqrt(1.2 * 0.6), whatever its ratio."""
    term = GSPOConfig(clip_low=0.9, clip_high=9.0).build()
    made, grad = evaluate(term, [1.2, 50.0, 0.6], 1.0, [True, False, True])
    assert made.loss[0, 0].item() == pytest.approx(-ROOT)
    assert grad == pytest.approx([-ROOT, 0.0, -ROOT])
    nothing, grad = evaluate(term, [1.2, 3.0], 1.0, [False, False])
    assert torch.isfinite(nothing.loss).all()
    assert grad == [0.0, 0.0]


@pytest.mark.parametrize(
    ("clip_low", "ratio", "advantage", "loss", "slope", "low", "high"),
    [
        # log-prob -2, upper bound 1.28: loss = -w A (-2), slope = -w A
        (1.0, 1.0, 2.0, 4.0, -2.0, False, False),
        (1.0, 1.5, 2.0, 5.12, -2.56, False, True),
        (1.0, 1.5, -2.0, -5.12, 2.56, False, True),
        (1.0, 0.5, 2.0, 2.0, -1.0, False, False),
        (0.2, 0.5, 2.0, 3.2, -1.6, True, False),
        (0.2, 0.5, -2.0, -3.2, 1.6, True, False),
    ],
)
def test_cispo(clip_low, ratio, advantage, loss, slope, low, high) -> None:
    term = CISPOConfig(clip_low=clip_low, clip_high=0.28).build()
    made, grad = evaluate(term, [ratio], advantage)
    assert made.loss.item() == pytest.approx(loss)
    assert grad == pytest.approx([slope])
    assert (flags(made.clipped_low), flags(made.clipped_high)) == ([low], [high])


def test_reinforce_knows_no_ratio() -> None:
    made, grad = evaluate(ReinforceConfig().build(), [0.1, 1.0, 9.0], 1.5)
    assert made.loss[0].tolist() == [3.0, 3.0, 3.0]
    assert grad == [-1.5, -1.5, -1.5]
    assert not (made.clipped_low | made.clipped_high).any()


def test_every_term_is_the_policy_gradient_where_the_ratio_is_one() -> None:
    """Slope -A a token; for gspo the two values share it."""
    for config in (ClipConfig(), GSPOConfig(), CISPOConfig(), ReinforceConfig()):
        _, grad = evaluate(config.build(), [1.0, 1.0], -0.7)
        assert grad == pytest.approx([0.7, 0.7]), config


def test_corrections() -> None:
    ratio = torch.tensor([0.25, 0.5, 1.0, 2.0, 2.5, 5.0, 5.5])
    cut = Truncate(cap=2.0)(ratio)
    assert cut.weight.tolist() == [0.25, 0.5, 1.0, 2.0, 2.0, 2.0, 2.0]
    assert cut.limited.tolist() == [False, False, False, False, True, True, True]
    masked = Mask(low=0.5, high=5.0)(ratio)
    assert masked.weight.tolist() == [0.0, 0.5, 1.0, 2.0, 2.5, 5.0, 0.0]
    assert masked.limited.tolist() == [True, False, False, False, False, False, True]


def test_settings() -> None:
    assert NoCorrectionConfig().build() is None
    assert TISConfig().build() == Truncate(cap=2.0)
    assert MaskConfig().build() == Mask(low=0.5, high=5.0)
    wrong: list[tuple[Any, str, float]] = [
        (TISConfig, "cap", 0.9),
        (TISConfig, "cap", NAN),
        (MaskConfig, "low", -0.1),
        (MaskConfig, "low", 1.1),
        (MaskConfig, "high", 0.9),
        (GSPOConfig, "clip_low", 1.0),
        (GSPOConfig, "clip_high", 0.0),
        (CISPOConfig, "clip_low", 1.1),
        (CISPOConfig, "clip_high", NAN),
    ]
    for kind, key, value in wrong:
        with pytest.raises(ConfigError, match=f"^{key}: must"):
            kind(**{key: value})
    with pytest.raises(ConfigError, match="no build"):
        LossConfig().build()


@pytest.mark.parametrize(
    ("name", "advantage", "loss", "clip", "normalisation", "rounds", "mini_batches"),
    [
        ("grpo", "GroupNorm", "Clip", (0.2, 0.2), "sequence_mean", 0, 1),
        ("dr_grpo", "MeanBaseline", "Clip", (0.2, 0.2), "constant", 0, 1),
        ("dapo", "GroupNorm", "Clip", (0.2, 0.28), "token_mean", 10, 1),
        ("rloo", "RLOO", "function", None, "constant", 0, 1),
        ("gspo", "GroupNorm", "GSPO", (3e-4, 4e-4), "sequence_mean", 0, 4),
        ("cispo", "GroupNorm", "CISPO", (1.0, 4.0), "token_mean", 0, 1),
    ],
)
def test_bundles(name, advantage, loss, clip, normalisation, rounds, mini_batches) -> None:
    """What each published name stands for, at a scale where grpo itself has a KL weight of 0.04."""
    algorithm: Any = compose_run([f"algorithm={name}", "model=qwen3b", "reward=iou_rec"]).algorithm
    term = algorithm.loss.build()
    assert (type(algorithm.advantage.build()).__name__, type(term).__name__) == (advantage, loss)
    assert clip is None or (term.clip_low, term.clip_high) == clip
    assert str(algorithm.loss.normalisation) == normalisation
    assert algorithm.dynamic_sampling.max_rounds == rounds
    assert algorithm.mini_batches == mini_batches
    assert algorithm.kl.weight() == (0.04 if name == "grpo" else 0.0)
    assert algorithm.correction.build() is None
    assert (algorithm.num_steps, algorithm.prompts_per_step, algorithm.group_size) == (600, 16, 8)
