"""Rows drawn with earlier weights: what their ratio is taken to, worked out by hand."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from tests.tiny import experience, learner, varied_contexts

from groundrl.config.compose import compose_run
from groundrl.learner.learner import Learner
from groundrl.learner.objective import Batch, PolicyObjective
from groundrl.losses.clip import Clip
from groundrl.losses.correction import Truncate
from groundrl.run_checks import ignored


class Seen(PolicyObjective):
    """Keeps the old log-probs that it is given."""

    old: list[Any] = []  # noqa: RUF012

    def __call__(self, scores: Any, batch: Batch) -> Any:
        self.old.append(batch.old_logprobs)
        return super().__call__(scores, batch)


def drawn(
    policy: Any, *, gaps: tuple[float, ...], lags: tuple[int, ...], advantages: tuple[float, ...]
) -> Any:
    """One-token rows whose engine gave the token exp(-gap) times the learner's present probability."""
    rows = experience(
        policy.processor, varied_contexts(policy.processor), lengths=(1,) * len(gaps), advantages=advantages
    )
    policy.model.eval()
    with torch.no_grad():
        made = learner(policy.model, policy.processor)
        for row, gap, lag in zip(rows, gaps, lags, strict=True):
            present = float(made.scorer(policy.model, [row.row]).logprobs[0, 0])
            row.behaviour_logprobs = np.array([present - gap], dtype=np.float32)
            row.lag = lag
    return rows


def made(policy: Any, **changes: Any) -> Learner:
    objective = changes.pop("objective", PolicyObjective(term=Clip(clip_low=0.2, clip_high=0.2)))
    return learner(policy.model, policy.processor, objective=objective, lr=0.0, **changes)


@pytest.mark.parametrize(
    ("ratio", "advantage", "loss", "clipped"),
    [
        (1.5, 1.0, -1.2, True),  # -min(1.5, 1.2)
        (1.5, -1.0, 1.5, False),  # -min(-1.5, -1.2)
        (0.5, 1.0, -0.5, False),  # -min(0.5, 0.8)
        (0.5, -1.0, 0.8, True),  # -min(-0.5, -0.8)
        (1.1, 1.0, -1.1, False),
    ],
)
def test_the_ratio_of_a_lagged_row_is_to_the_policy_that_drew_it(
    fresh_policy, ratio: float, advantage: float, loss: float, clipped: bool
) -> None:
    rows = drawn(fresh_policy, gaps=(math.log(ratio),), lags=(1,), advantages=(advantage,))
    metrics = made(fresh_policy, engine_ratio=True).step(rows)
    assert metrics["learner/loss"] == pytest.approx(loss, rel=1e-5)
    low, high = metrics["learner/clip_low_frac"], metrics["learner/clip_high_frac"]
    assert (low, high) == ((float(clipped), 0.0) if ratio < 1 else (0.0, float(clipped)))
    # a clipped token has no gradient, one inside the bounds has
    assert (metrics["learner/grad_norm"] == 0.0) is clipped
    # k3 of the present policy from the one that drew: exp(-log r) - 1 + log r
    assert metrics["learner/approx_kl"] >= 0
    assert metrics["learner/mismatch_kl"] == 0.0


def test_a_row_without_lag_keeps_its_ratio_of_one(fresh_policy) -> None:
    rows = drawn(fresh_policy, gaps=(math.log(1.5),), lags=(0,), advantages=(1.0,))
    metrics = made(fresh_policy, engine_ratio=True).step(rows)
    assert metrics["learner/loss"] == pytest.approx(-1.0, rel=1e-6)
    # the gap is the engine's: k3 = exp(g) - 1 - g with g = log 1.5
    assert metrics["learner/mismatch_kl"] == pytest.approx(1.5 - 1 - math.log(1.5), rel=1e-4)


def test_a_correction_weighs_lagged_rows_and_leaves_the_ratio_alone(fresh_policy) -> None:
    """f(pi_0 / mu) = min(ratio, 2): 1.5 and 2 of 3; the ratio pi / pi_0 is 1."""
    correction = PolicyObjective(term=Clip(clip_low=0.2, clip_high=0.2), correction=Truncate(cap=2.0))
    for gap, loss in ((1.5, -1.5), (3.0, -2.0)):
        rows = drawn(fresh_policy, gaps=(math.log(gap),), lags=(1,), advantages=(1.0,))
        metrics = made(fresh_policy, objective=correction).step(rows)
        assert metrics["learner/loss"] == pytest.approx(loss, rel=1e-5)
        assert metrics["learner/grad_norm"] > 0


@pytest.mark.parametrize("iterations", [1, 2])
def test_each_row_of_a_mixed_batch_has_its_own_denominator(fresh_policy, iterations: int) -> None:
    gaps = (0.3, 0.4, 0.5)
    rows = drawn(fresh_policy, gaps=gaps, lags=(2, 0, 1), advantages=(1.0, 1.0, 1.0))
    seen = Seen(term=Clip(clip_low=0.2, clip_high=0.2))
    seen.old.clear()
    made(fresh_policy, objective=seen, engine_ratio=True, num_iterations=iterations).step(rows)
    assert len(seen.old) == iterations
    behaviour = [float(row.behaviour_logprobs[0]) for row in rows]
    expected = [behaviour[0], behaviour[1] + gaps[1], behaviour[2]]
    for old in seen.old:
        assert old[:, 0].tolist() == pytest.approx(expected, abs=1e-5)


def test_without_weights_that_move_lag_changes_nothing_but_the_names(fresh_policy) -> None:
    """The engine's log-probs are the learner's here, so both denominators are the same number."""
    now = drawn(fresh_policy, gaps=(0.0,) * 4, lags=(0,) * 4, advantages=(1.0, -1.0, 0.5, -0.5))
    then = drawn(fresh_policy, gaps=(0.0,) * 4, lags=(1,) * 4, advantages=(1.0, -1.0, 0.5, -0.5))
    one, other = (made(fresh_policy, engine_ratio=True).step(rows) for rows in (now, then))
    assert one["learner/grad_norm"] == pytest.approx(other["learner/grad_norm"], rel=1e-4)
    assert one["learner/loss"] == pytest.approx(other["learner/loss"], abs=1e-5)


def test_unsampled_tokens_of_a_lagged_row_leave_no_nan(fresh_policy) -> None:
    rows = experience(
        fresh_policy.processor,
        varied_contexts(fresh_policy.processor)[:2],
        lengths=(6, 6),
        advantages=(1.0, -1.0),
        selected=lambda row, token: token < 3,
    )
    for row in rows:
        row.lag = 1
    assert any(np.isnan(row.behaviour_logprobs).any() for row in rows)
    metrics = made(fresh_policy, engine_ratio=True).step(rows)
    assert metrics["learner/skipped"] == 0.0
    assert all(math.isfinite(value) for value in metrics.values())


def test_which_settings_count_with_lag() -> None:
    """The bounds of the ratio do as soon as it can differ from 1."""
    bounds = {"algorithm.loss.clip_low", "algorithm.loss.clip_high"}

    def unused(*words: str) -> set[str]:
        return {key for key, _ in ignored(compose_run(list(words)))}

    assert bounds <= unused()
    assert not bounds & unused("rollout.max_lag=1")
    assert bounds <= unused("rollout.max_lag=1", "algorithm/correction=tis")
    assert "rollout.max_lag" in unused("algorithm=sft")
    assert "rollout.max_lag" not in unused()
