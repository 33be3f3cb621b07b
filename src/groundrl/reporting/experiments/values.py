"""One number of one run: a metric by its name."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass

from groundrl.reporting.experiments.layout import When
from groundrl.reporting.onset import onset
from groundrl.sweeping.results import ResultRow
from groundrl.tracking.base import HELD_OUT, Interval

END_SHARE = 0.1
NEAREST = 0.05
_ONSET = re.compile(r"onset\((.+)\)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Value:
    """A number with the interval of its own run, where that is known.

    `evaluated` names the evaluation that it comes from (`heldout` or a benchmark), None for a training curve.
    `censored`: the event never came, and the value is the run's length.
    """

    value: float
    low: float | None = None
    high: float | None = None
    evaluated: str | None = None
    censored: bool = False


def run_value(
    row: ResultRow, metric: str, *, when: When | None = None, at: float | None = None
) -> Value | None:
    """The value of `metric` in a finished run; None if the run does not have it.

    when   `after` or `before` training; None is after it, or before it for a run that did not train
    at     fraction of the run's steps. 0 and 1 are the evaluations before and after, where they have the
           metric; otherwise the point of the curve nearest to that step, no further than NEAREST of the run

    `onset(NAME)` is the step at which the curve NAME rises (`reporting.onset`), and the run's length, marked
    censored, if it never does. A metric of training alone (no evaluation has it) is its mean over the last
    END_SHARE of its points.
    """
    wanted = _ONSET.fullmatch(metric)
    if wanted:
        return _onset(row, wanted.group(1))
    measured = row.before if when == "before" else row.after if when == "after" else row.measured
    if at is None:
        if metric in row.before or metric in row.after:
            return _evaluated(row, measured, metric)
        return _end(row, metric) if when != "before" else None
    if at == 0 and metric in row.before:
        return _evaluated(row, row.before, metric)
    if at == 1 and metric in row.after:
        return _evaluated(row, row.after, metric)
    return _nearest(row, metric, at)


def metric_names(row: ResultRow) -> list[str]:
    """All that `run_value` knows of a run."""
    return sorted({*row.before, *row.after, *row.curves})


def _evaluated(row: ResultRow, measured: Mapping[str, Interval], metric: str) -> Value | None:
    entry = measured.get(metric)
    if entry is None or not _finite(entry["value"]):
        return None
    known = _finite(entry["low"]) and _finite(entry["high"])
    return Value(
        value=float(entry["value"] or 0.0),
        low=entry["low"] if known else None,
        high=entry["high"] if known else None,
        evaluated=_evaluation(metric),
    )


def _evaluation(metric: str) -> str:
    first = metric.partition("/")[0]
    return "heldout" if first in HELD_OUT else first


def _end(row: ResultRow, metric: str) -> Value | None:
    points = [value for _, value in row.curves.get(metric, []) if math.isfinite(value)]
    last = points[-max(1, round(END_SHARE * len(points))) :]
    return Value(value=math.fsum(last) / len(last)) if last else None


def _nearest(row: ResultRow, metric: str, at: float) -> Value | None:
    step = at * row.steps
    points = [
        (abs(there - step), value) for there, value in row.curves.get(metric, []) if math.isfinite(value)
    ]
    if not points:
        return None
    distance, value = min(points, key=lambda point: point[0])
    if distance > NEAREST * row.steps:
        return None
    evaluation = metric in row.before or metric in row.after
    return Value(value=value, evaluated=_evaluation(metric) if evaluation else None)


def _onset(row: ResultRow, metric: str) -> Value | None:
    curve = row.curves.get(metric)
    if not curve:
        return None
    step = onset([point for point in curve if math.isfinite(point[1])])
    return Value(value=float(row.steps), censored=True) if step is None else Value(value=step)


def _finite(value: float | None) -> bool:
    return value is not None and math.isfinite(value)
