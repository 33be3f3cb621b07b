"""The tracker interface and the shape of what is tracked."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol, TypedDict

TRAIN = "train"
EVAL = "eval"


class Interval(TypedDict):
    """A metric with the ends of its confidence interval, all three in the metric's own unit."""

    value: float | None
    low: float | None
    high: float | None


Metrics = Mapping[str, float | Interval | None]
"""Flat metric names (`reward/total`) to a number, an interval (evaluation), or None where not defined."""


class Tracker(Protocol):
    """Receives the numbers of a run.

    log      stores the metrics of one step; `kind` is "train" or "eval"
    state    what a resumed run must hand back to continue the same record; plain JSON values
    finish   closes the record; `status` is "finished" or "interrupted"
    """

    def log(self, step: int, kind: str, metrics: Metrics) -> None: ...

    def state(self) -> dict[str, Any]: ...

    def finish(self, status: str) -> None: ...


def scalars(kind: str, metrics: Metrics) -> dict[str, float]:
    """Flat name to number, for services that only know scalars.

    An interval becomes three names (`x`, `x/low`, `x/high`). Evaluation names get the prefix `eval/` unless
    they have it. Undefined values are left out.
    """
    flat: dict[str, float] = {}
    for name, value in metrics.items():
        full = f"eval/{name}" if kind == EVAL and not name.startswith("eval/") else name
        if isinstance(value, Mapping):
            parts = {full: value["value"], f"{full}/low": value["low"], f"{full}/high": value["high"]}
        else:
            parts = {full: value}
        flat.update({key: float(number) for key, number in parts.items() if number is not None})
    return flat
