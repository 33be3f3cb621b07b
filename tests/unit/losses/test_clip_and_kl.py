"""The clipped term and k3, with every number worked out by hand."""

from __future__ import annotations

import math

import pytest
import torch

from groundrl.errors import ConfigError
from groundrl.losses.clip import clip_term
from groundrl.losses.config import AutoKLConfig, ClipConfig, K3Config, KLConfig, NoKLConfig
from groundrl.losses.kl import k3


def one(
    ratio: float, advantage: float, low: float = 0.2, high: float = 0.28
) -> tuple[float, float, bool, bool]:
    """loss, d loss / d logprob, clipped low, clipped high of one token."""
    logprob = torch.tensor([[math.log(ratio) - 2.0]], dtype=torch.float64, requires_grad=True)
    old = torch.tensor([[-2.0]], dtype=torch.float64)
    term = clip_term(logprob, old, torch.tensor([advantage]), clip_low=low, clip_high=high)
    term.loss.sum().backward()
    return float(term.loss.detach()), float(logprob.grad), bool(term.clipped_low), bool(term.clipped_high)


@pytest.mark.parametrize(
    ("ratio", "advantage", "loss", "slope", "low", "high"),
    [
        # inside the range: plain policy gradient, slope = -ratio * A
        (1.0, 2.0, -2.0, -2.0, False, False),
        (1.0, -2.0, 2.0, 2.0, False, False),
        (1.25, 2.0, -2.5, -2.5, False, False),
        (0.85, -2.0, 1.7, 1.7, False, False),
        # too likely already and good: cut at 1.28 * 2
        (1.5, 2.0, -2.56, 0.0, False, True),
        # too likely and bad: never cut, or a bad token could not be pushed down
        (1.5, -2.0, 3.0, 3.0, False, False),
        # too unlikely and good: never cut
        (0.5, 2.0, -1.0, -1.0, False, False),
        # too unlikely already and bad: cut at 0.8 * 2
        (0.5, -2.0, 1.6, 0.0, True, False),
        # no advantage, no slope, nothing counted as cut
        (3.0, 0.0, 0.0, 0.0, False, False),
        (0.1, 0.0, 0.0, 0.0, False, False),
    ],
)
def test_clip_by_hand(ratio, advantage, loss, slope, low, high) -> None:
    assert one(ratio, advantage) == (pytest.approx(loss), pytest.approx(slope, abs=1e-12), low, high)


def test_the_two_sides_have_their_own_bounds() -> None:
    assert one(1.25, 1.0, low=0.2, high=0.2)[1] == 0.0
    assert one(1.25, 1.0, low=0.2, high=0.28)[1] == pytest.approx(-1.25)
    assert one(0.75, -1.0, low=0.2, high=0.28)[1] == 0.0
    assert one(0.75, -1.0, low=0.3, high=0.28)[1] == pytest.approx(0.75)


def test_each_row_has_its_own_advantage() -> None:
    logprobs = torch.zeros(2, 3)
    term = clip_term(logprobs, logprobs, torch.tensor([1.0, -3.0]), clip_low=0.2, clip_high=0.2)
    assert term.loss.tolist() == [[-1.0] * 3, [3.0] * 3]


@pytest.mark.parametrize(
    ("policy", "reference", "value", "slope"),
    [
        # gap = reference - policy; value = e^gap - gap - 1; d/d policy = 1 - e^gap
        (-1.0, -1.0, 0.0, 0.0),
        (-1.0, -1.5, 0.10653066, 0.39346934),
        (-1.5, -1.0, 0.14872127, -0.64872127),
        (-1.0, -3.0, 1.13533528, 0.86466472),
        (math.log(0.2), math.log(0.6), 3 - math.log(3) - 1, -2.0),
    ],
)
def test_k3_by_hand(policy, reference, value, slope) -> None:
    logprob = torch.tensor(policy, dtype=torch.float64, requires_grad=True)
    got = k3(logprob, torch.tensor(reference, dtype=torch.float64))
    got.backward()
    assert float(got.detach()) == pytest.approx(value, abs=1e-8)
    assert float(logprob.grad) == pytest.approx(slope, abs=1e-8)


def test_k3_is_unbiased_for_kl_of_policy_from_reference() -> None:
    """sum_x p(x) k3(x) = KL(p || q), which differs from KL(q || p) for these two."""
    p = torch.tensor([0.7, 0.2, 0.1], dtype=torch.float64)
    q = torch.tensor([0.2, 0.3, 0.5], dtype=torch.float64)
    exact = float((p * (p / q).log()).sum())
    assert float((p * k3(p.log(), q.log())).sum()) == pytest.approx(exact, abs=1e-12)
    assert exact != pytest.approx(float((q * (q / p).log()).sum()), abs=1e-2)


def test_k3_is_never_negative() -> None:
    gaps = torch.linspace(-30, 30, 2001, dtype=torch.float64)
    assert float(k3(torch.zeros_like(gaps), gaps).min()) >= 0.0


def test_settings() -> None:
    assert KLConfig().weight() == NoKLConfig().weight() == AutoKLConfig().weight() == 0.0
    assert K3Config(beta=0.04).weight() == 0.04
    with pytest.raises(ConfigError, match=r"^beta: must be > 0"):
        K3Config(beta=0.0)
    with pytest.raises(ConfigError, match=r"^beta: must be >= 0"):
        AutoKLConfig(beta=-0.1)
    for low in (0.0, 1.0, -0.2):
        with pytest.raises(ConfigError, match=r"^clip_low: "):
            ClipConfig(clip_low=low)
    with pytest.raises(ConfigError, match=r"^clip_high: "):
        ClipConfig(clip_high=0.0)
