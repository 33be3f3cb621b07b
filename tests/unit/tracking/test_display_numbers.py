"""Numbers as they are printed."""

from __future__ import annotations

import pytest

from groundrl.tracking.numbers import bounds, duration, finite, interval, number


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0.000"), (0.41234, "0.412"), (-0.5, "-0.500"), (9.9994, "9.999"), (48.17, "48.2"),
        (612.4, "612"), (9999.0, "9999"), (12345.0, "12.3k"), (2.5e6, "2.5M"), (3e9, "3.0G"),
        (1e-5, "1.0e-05"), (0.001, "0.001"),
        (None, "-"), (float("nan"), "-"), (float("inf"), "-"),
    ],
)  # fmt: skip
def test_number(value: float | None, text: str) -> None:
    assert number(value) == text


def test_interval_uses_one_precision() -> None:
    assert interval({"value": 0.58, "low": 0.5461, "high": 0.612}) == "0.580 [0.546, 0.612]"
    assert interval({"value": 9.5, "low": 8.0, "high": 11.0}) == "9.5 [8.0, 11.0]"
    assert interval({"value": 0.1, "low": -0.02, "high": 0.3}, signed=True) == "+0.100 [-0.020, +0.300]"
    assert interval({"value": 2e-6, "low": 1e-6, "high": 3e-6}) == "2.0e-06 [1.0e-06, 3.0e-06]"


def test_interval_of_what_is_not_all_there() -> None:
    assert interval(0.7) == "0.700"
    assert interval({"value": 0.7, "low": None, "high": 0.8}) == "0.700"
    assert interval({"value": None, "low": 0.1, "high": 0.8}) == "-"
    assert interval({}) == "-"
    assert interval(None) == "-"


def test_finite_takes_numbers_only() -> None:
    assert finite(3) == 3.0
    assert [finite(value) for value in (True, "1", None, float("nan"), 10**400, [1])] == [None] * 6
    assert bounds({"value": 1, "low": "x", "high": float("inf")}) == (1.0, None, None)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0s"),
        (-5, "0s"),
        (59.4, "59s"),
        (59.6, "1m00s"),
        (200, "3m20s"),
        (7500, "2h05m"),
        (356_400, "4d03h"),
    ],
)
def test_duration(seconds: float, text: str) -> None:
    assert duration(seconds) == text
