"""Numbers as people read them: the same in the terminal and in the report."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

UNKNOWN = "-"

_DURATIONS = (("d", 86400, "h", 3600), ("h", 3600, "m", 60), ("m", 60, "s", 1))


def number(value: float | None) -> str:
    """About three significant digits: `0.412`, `48.2`, `612`, `1.2k`, `3.4M`, `1.0e-06`; `-` if unknown."""
    if value is None or not math.isfinite(value):
        return UNKNOWN
    size = abs(value)
    for limit, divisor, suffix in ((1e9, 1e9, "G"), (1e6, 1e6, "M"), (1e4, 1e3, "k")):
        if size >= limit:
            return f"{value / divisor:.1f}{suffix}"
    if size and size < 1e-3:
        return f"{value:.1e}"
    return f"{value:.{_decimals(size)}f}"


def interval(values: Mapping[str, Any] | float | None, *, signed: bool = False) -> str:
    """`0.580 [0.546, 0.612]`, its three numbers with the same decimals; without an interval the value alone.

    `signed` writes a plus before positive numbers, as a difference is written.
    """
    value, low, high = bounds(values)
    if value is None:
        return UNKNOWN
    known = [part for part in (value, low, high) if part is not None]
    size = max(abs(part) for part in known)
    plus = "+" if signed else ""
    style = f"{plus}.1e" if size and size < 1e-3 else f"{plus}.{_decimals(size)}f"
    if low is None or high is None:
        return format(value, style)
    return f"{value:{style}} [{low:{style}}, {high:{style}}]"


def bounds(values: Mapping[str, Any] | float | None) -> tuple[float | None, float | None, float | None]:
    """(value, low, high) of a metric that may be a plain number; what is unknown or not finite is None."""
    if isinstance(values, Mapping):
        return finite(values.get("value")), finite(values.get("low")), finite(values.get("high"))
    return finite(values), None, None


def finite(value: Any) -> float | None:
    """`value` as a float; None if it is no number or not finite."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        result = float(value)
    except OverflowError:
        return None
    return result if math.isfinite(result) else None


def duration(seconds: float) -> str:
    """`8s`, `3m20s`, `2h05m`, `4d03h`."""
    whole = max(0, round(seconds))
    for unit, size, next_unit, next_size in _DURATIONS:
        if whole >= size:
            return f"{whole // size}{unit}{whole % size // next_size:02d}{next_unit}"
    return f"{whole}s"


def _decimals(size: float) -> int:
    if size >= 100:
        return 0
    return 1 if size >= 10 else 3
