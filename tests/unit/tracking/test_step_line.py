"""The line of a step and the estimate of the remaining time."""

from __future__ import annotations

from groundrl.tracking.sparkline import sparkline
from groundrl.tracking.step_line import Eta, fit, reward_terms, step_fields

METRICS: dict[str, float | None] = {
    "reward/total": 0.412,
    "reward/iou": 0.35,
    "reward/format": 0.98,
    "reward/rec/total": 0.5,
    "rollout/tokens_mean": 48.2,
    "learner/loss": 0.0123,
    "learner/grad_norm": 0.81,
    "learner/lr": 1e-5,
    "time/step": 1.934,
    "perf/tokens_per_s": 1234.0,
    "perf/memory_mb": 612.3,
}


def line(width: int | None = None) -> str:
    return "  ".join(map(str, fit(step_fields(7, 240, METRICS, 451.0), width)))


def test_the_full_line() -> None:
    assert line() == (
        "step   7/240  1.934 s  reward 0.412  (iou 0.350, format 0.980)  length 48.2  loss 0.012  "
        "grad 0.810  lr 1.0e-05  1234 tok/s  612 MB  eta 7m31s"
    )


def test_a_narrow_line_drops_the_least_important_first() -> None:
    assert line(110).endswith("grad 0.810  eta 7m31s")
    assert line(40) == "step   7/240  reward 0.412  eta 7m31s"
    assert line(30) == "step   7/240  reward 0.412"
    assert line(1) == "step   7/240"


def test_every_width_is_kept() -> None:
    assert all(len(line(width)) <= width for width in range(12, 160))


def test_undefined_metrics_are_left_out() -> None:
    metrics = {"reward/total": None, "learner/loss": float("nan"), "learner/lr": 0.5}
    assert [str(field) for field in step_fields(1, 9, metrics, None)] == ["step 1/9", "lr 0.500"]


def test_terms_are_told_from_totals() -> None:
    assert reward_terms(METRICS) == {"iou": 0.35, "format": 0.98}


def test_eta_is_not_pulled_by_one_long_step() -> None:
    eta = Eta()
    assert eta.remaining(10) is None
    for seconds in (2.0, 2.0, 90.0, 2.0, 2.0):
        eta.add(seconds)
    assert eta.remaining(10) == 20.0


def test_eta_follows_the_recent_steps() -> None:
    eta = Eta()
    for seconds in [1.0] * 50 + [3.0] * 20:
        eta.add(seconds)
    assert eta.remaining(2) == 6.0


def test_sparkline() -> None:
    assert sparkline([0, 1, 2, 3, 4, 5, 6, 7], 8) == "▁▂▃▄▅▆▇█"
    assert sparkline([0.0, 0.0, 8.0, 8.0], 2) == "▁█"
    assert len(sparkline([float(i % 7) for i in range(1000)], 24)) == 24
    assert [sparkline(values, 8) for values in ([], [1.0], [2.0, 2.0])] == ["", "", ""]
    assert sparkline([0, 1], 8, encoding="ascii") == ""
    assert sparkline([0, 1], 8, encoding="no-such-encoding") == ""
