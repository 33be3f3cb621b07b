"""The step at which a curve rises, on curves whose answer is known by construction."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from groundrl.reporting.onset import LEAST_POINTS, onset

Rng = np.random.Generator


def curve(values: list[float], every: int = 1) -> list[tuple[float, float]]:
    return [(float(index * every), value) for index, value in enumerate(values)]


def test_a_step_is_found_where_it_is() -> None:
    # 60 points, median over 7: the median of points 34..40 (around 37) is the first with a majority of ones
    # at index 40 - a window around 40 is 37..43 with 4 ones of 7, one around 39 has 3 of 7.
    assert onset(curve([0.0] * 40 + [1.0] * 20)) == 40
    assert onset(curve([0.0] * 40 + [1.0] * 20, every=5)) == 200


def test_flat_falling_and_short_curves_have_none() -> None:
    assert onset(curve([0.3] * 50)) is None
    assert onset(curve([1.0 - index / 50 for index in range(50)])) is None
    assert onset(curve([0.0] * (LEAST_POINTS // 2) + [1.0] * (LEAST_POINTS // 2 - 1))) is None
    assert onset([]) is None


def test_a_dip_then_a_rise_is_measured_from_the_dip() -> None:
    # 0.3 for 20 points, 0.05 for 30, then 0.7: trough 0.05, a third of the rise up is 0.267, so the first
    # level (0.3, above it) is not the onset: the last point below is 49.
    assert onset(curve([0.3] * 20 + [0.05] * 30 + [0.7] * 30)) == 50


def test_a_rise_that_is_lost_again_does_not_count() -> None:
    lost = [0.0] * 20 + [1.0] * 20
    assert onset(curve([*lost, *[0.0] * 40])) is None
    assert onset(curve([*lost, *[0.0] * 20, *[1.0] * 20])) == 60


def test_a_rise_from_the_start() -> None:
    # 0, 1, ..., 48, median over 5 that leans inwards at the ends: smooth = 2, 2, 2, 3, ..., 45, 46, 46, 46.
    # Rise = 46 - 2 = 44, the level is 2 + 14.67 = 16.67: the last below is 16, the onset 17.
    assert onset(curve([float(index) for index in range(49)])) == 17


def test_one_outlier_is_no_rise() -> None:
    values = [0.1] * 60
    values[59] = 5.0
    assert onset(curve(values)) is None


@pytest.mark.parametrize("points", [12, 40, 80, 120])
@pytest.mark.parametrize(
    ("draw", "most"),
    [(lambda rng, n: rng.normal(size=n), 0.012), (lambda rng, n: rng.uniform(size=n), 0.025)],
    ids=["normal", "uniform"],
)
def test_flat_noise_rarely_has_an_onset(
    points: int, draw: Callable[[Rng, int], np.ndarray], most: float
) -> None:
    rng = np.random.default_rng(points)
    found = [onset(curve(draw(rng, points).tolist())) is not None for _ in range(500)]
    assert np.mean(found) <= most


def test_a_rise_in_noise_is_found_near_its_place() -> None:
    rng = np.random.default_rng(0)
    found = [
        onset(curve((np.repeat([0.0, 1.0], [50, 30]) + 0.25 * rng.normal(size=80)).tolist()))
        for _ in range(200)
    ]
    hits = [step for step in found if step is not None]
    assert len(hits) == 200
    assert max(hits) <= 52
    assert np.mean([step >= 45 for step in hits]) > 0.95
