"""Paired t and Holm: hand-worked values, and against scipy and the definition."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from groundrl.reporting.claims.holm import holm
from groundrl.reporting.claims.markdown import p_text
from groundrl.reporting.claims.paired import paired
from groundrl.reporting.seeds import seed_mean, t_interval


def test_paired_by_hand() -> None:
    # a - b = 1, 2, 3: mean 2, s 1, t = 2 root 3. With 2 degrees of freedom P(T > t) =
    # (1 - t / root(t^2 + 2)) / 2 = (1 - 3.46410 / 3.74166) / 2 = 0.037090.
    # The interval is 2 +- 4.30265 / root 3 = 2 +- 2.48414.
    found = paired([2.0, 4.0, 6.0], [1.0, 2.0, 3.0], alpha=0.05)
    assert found.effect == pytest.approx(2.0)
    assert found.greater == pytest.approx((1 - math.sqrt(12) / math.sqrt(14)) / 2, abs=1e-12)
    assert found.greater == pytest.approx(0.037090, abs=1e-6)
    assert found.less == pytest.approx(1 - 0.037090, abs=1e-6)
    assert (found.low, found.high) == pytest.approx((2 - 2.48414, 2 + 2.48414), abs=1e-5)
    assert (found.n, found.exact) == (3, False)


def test_paired_is_scipys_for_many_draws() -> None:
    rng = np.random.default_rng(0)
    for n in (3, 4, 5, 9):
        for _ in range(50):
            a, b = rng.normal(size=n), rng.normal(0.3, 2.0, size=n)
            found = paired(a.tolist(), b.tolist(), alpha=0.1)
            for side in ("greater", "less"):
                assert getattr(found, side) == pytest.approx(
                    stats.ttest_rel(a, b, alternative=side).pvalue, abs=1e-12
                )
            wanted = stats.ttest_rel(a, b).confidence_interval(0.9)
            assert (found.low, found.high) == pytest.approx((wanted.low, wanted.high))


def test_equal_differences_fall_back_to_the_sign_test() -> None:
    # 0.3 - 0.2 and 0.2 - 0.1 differ by rounding alone, which must not become a tiny p: 2^-3.
    up = paired([0.3, 0.2, 0.4], [0.2, 0.1, 0.3], alpha=0.05)
    assert (up.greater, up.less, up.exact) == (0.125, 1.0, True)
    down = paired([1.0] * 5, [2.0] * 5, alpha=0.05)
    assert (down.greater, down.less) == (1.0, 2.0**-5)
    none = paired([1.0] * 3, [1.0] * 3, alpha=0.05)
    assert (none.greater, none.less, none.effect) == (1.0, 1.0, 0.0)


def test_two_seeds_are_refused() -> None:
    with pytest.raises(ValueError, match="needs 3 seeds, got 2"):
        paired([1.0, 2.0], [0.0, 0.0], alpha=0.05)


def test_holm_by_hand() -> None:
    # sorted 0.005, 0.01, 0.03, 0.04 times 4, 3, 2, 1 = 0.02, 0.03, 0.06, 0.04, the last lifted to 0.06
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([0.6, 0.5]) == pytest.approx([1.0, 1.0])
    assert holm([0.04]) == pytest.approx([0.04])
    assert holm([]) == []


@settings(max_examples=200, deadline=None)
@given(st.lists(st.floats(0, 1), min_size=1, max_size=8), st.floats(0.001, 0.2))
def test_holm_rejects_what_the_step_down_rule_rejects(values: list[float], alpha: float) -> None:
    """Holm 1979: go through the sorted p-values and stop at the first above alpha / (m - k + 1)."""
    order = sorted(range(len(values)), key=lambda index: values[index])
    rejected: set[int] = set()
    for rank, index in enumerate(order):
        if values[index] * (len(values) - rank) > alpha:
            break
        rejected.add(index)
    assert {index for index, p in enumerate(holm(values)) if p <= alpha} == rejected


def test_mean_over_seeds_by_hand() -> None:
    # 0.1, 0.2, 0.3: s = 0.1, reach = 4.30265 x 0.1 / root 3 = 0.248414
    assert t_interval([0.1, 0.2, 0.3]) == pytest.approx((-0.048414, 0.448414), abs=1e-6)
    many = seed_mean([0.1, 0.2, 0.3])
    assert (many.value, many.n, many.within_run) == (pytest.approx(0.2), 3, False)
    one = seed_mean([0.4], (0.3, 0.6))
    assert (one.value, one.low, one.high, one.n, one.within_run) == (0.4, 0.3, 0.6, 1, True)
    bare = seed_mean([0.4])
    assert (bare.low, bare.high, bare.within_run) == (None, None, False)
    percent = one.scaled(100)
    assert (percent.value, percent.low, percent.high) == pytest.approx((40.0, 30.0, 60.0))
    with pytest.raises(ValueError, match="two"):
        t_interval([0.1])


def test_no_p_value_is_printed_as_zero() -> None:
    assert [p_text(p) for p in (0.5, 0.0123456, 1e-4, 9.9e-5, 0.0)] == [
        "0.5000", "0.0123", "0.0001", "below 0.0001", "below 0.0001",
    ]  # fmt: skip
