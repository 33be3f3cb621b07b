"""Named values over steps, and how they are thinned and smoothed for drawing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

MAX_POINTS = 400
_SMOOTH_FROM = 30


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """Values `ys` at training steps `xs`, in increasing order of step; None where there is no value.

    `band` holds (low, high) per step for values with a confidence interval.
    """

    name: str
    xs: Sequence[float]
    ys: Sequence[float | None]
    band: Sequence[tuple[float | None, float | None]] = ()
    neutral: bool = False

    @property
    def last(self) -> float | None:
        return next((y for y in reversed(self.ys) if y is not None), None)


def collect(rows: Sequence[tuple[int, Mapping[str, float | None]]], names: Mapping[str, str]) -> list[Series]:
    """The metrics `names` (flat name to the name shown) that have a value anywhere in `rows`."""
    found: list[Series] = []
    for metric, shown in names.items():
        points = [(step, values[metric]) for step, values in rows if metric in values]
        if any(value is not None for _, value in points):
            xs, ys = [float(step) for step, _ in points], [value for _, value in points]
            found.append(Series(name=shown, xs=xs, ys=ys))
    return found


def thin(series: Series, limit: int = MAX_POINTS) -> Series:
    """At most `limit` points: means over stretches of equal length, placed at the stretch's last step."""
    count = len(series.xs)
    if count <= limit or series.band:
        return series
    edges = [round(index * count / limit) for index in range(limit + 1)]
    xs = [series.xs[edge - 1] for edge in edges[1:]]
    ys = [_mean(series.ys[edges[index] : edges[index + 1]]) for index in range(limit)]
    return Series(name=series.name, xs=xs, ys=ys, neutral=series.neutral)


def smooth(series: Series) -> Series | None:
    """The mean over a centred window of a twentieth of the points; None where they are few."""
    count = len(series.ys)
    if count < _SMOOTH_FROM or series.band:
        return None
    half = max(1, count // 40)
    ys = [
        _mean(series.ys[max(0, index - half) : index + half + 1]) if series.ys[index] is not None else None
        for index in range(count)
    ]
    return Series(name=series.name, xs=series.xs, ys=ys, neutral=series.neutral)


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None
