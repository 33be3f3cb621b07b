"""The table of before and after, each row with a small plot of the two values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from groundrl.reporting.headlines import split
from groundrl.reporting.records import text
from groundrl.reporting.svg import Scale, tag
from groundrl.tracking.comparison import Comparison, compare
from groundrl.tracking.numbers import bounds, interval

_WIDTH, _HEIGHT, _PAD = 180, 26, 7


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """A value and, below it, its interval."""

    value: str
    interval: str


@dataclass(frozen=True, slots=True, kw_only=True)
class OutcomeRow:
    metric: str
    cells: list[Cell]
    difference: Cell
    clear: bool
    plot: Markup


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The table: `rows` to see at once and `rest`; `lead` says what is compared if not the stored result."""

    columns: list[str]
    rows: list[OutcomeRow]
    rest: list[OutcomeRow]
    lead: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredEvals:
    """The evaluations of `result.json`, each metric name to value and interval; empty where not stored.

    Metrics of a benchmark are NAME/metric.
    """

    before: Mapping[str, Any]
    after: Mapping[str, Any]
    difference: Mapping[str, Any]
    references: Mapping[str, Mapping[str, Any]]


def stored_evals(result: Mapping[str, Any]) -> StoredEvals:
    """What `result.json` says; whatever has the wrong shape is empty."""
    evals = _metrics(result.get("eval"))
    references = {text(name): _metrics(values) for name, values in _metrics(evals.get("references")).items()}
    flat = {key: _metrics(evals.get(key)) for key in ("before", "after", "difference")}
    for name, entry in _metrics(evals.get("benchmarks")).items():
        for key, metrics in flat.items():
            for metric, value in _metrics(_metrics(entry).get(key)).items():
                metrics[f"{name}/{metric.removeprefix('greedy/')}"] = value
    return StoredEvals(references=references, **flat)


def build_outcome(
    result: Mapping[str, Any], evals: Sequence[tuple[int, Mapping[str, Any]]]
) -> Outcome | None:
    """From `result.json`; without it from the first and the last evaluation of `metrics.jsonl`."""
    stored = stored_evals(result)
    lead = ""
    if stored.before or stored.after:
        rows = compare(stored.before, stored.after, stored.difference, stored.references)
    elif len(evals) > 1:
        rows = compare(evals[0][1], evals[-1][1])
        lead = f"Evaluations at step {evals[0][0]} and step {evals[-1][0]}; differences without an interval."
    elif evals:
        rows = compare(None, evals[0][1])
        lead = f"The only evaluation, at step {evals[0][0]}."
    else:
        return None
    made = {row.metric: _row(row) for row in rows}
    main, rest = split(made)
    return Outcome(
        columns=list(rows[0].columns),
        rows=[made[name] for name in main],
        rest=[made[name] for name in rest],
        lead=lead,
    )


def _row(row: Comparison) -> OutcomeRow:
    return OutcomeRow(
        metric=row.metric,
        cells=[_cell(value) for value in row.columns.values()],
        difference=_cell(row.difference, signed=True),
        clear=row.clear,
        plot=_plot(row),
    )


def _cell(values: Any, *, signed: bool = False) -> Cell:
    value, _, rest = interval(values, signed=signed).partition(" ")
    return Cell(value=value, interval=rest)


def _plot(row: Comparison) -> Markup:
    """Before (hollow) and after (filled) with their intervals; shares on [0, 1], others on their range."""
    shown = {name: bounds(values) for name, values in row.columns.items()}
    numbers = [part for values in shown.values() for part in values if part is not None]
    if not numbers:
        return Markup("")
    low, high = (0.0, 1.0) if min(numbers) >= 0 and max(numbers) <= 1 else (min(numbers), max(numbers))
    x = Scale(low=low, high=high, start=_PAD, end=_WIDTH - _PAD)
    marks = [tag("line", class_="rail", x1=_PAD, x2=_WIDTH - _PAD, y1=_HEIGHT / 2, y2=_HEIGHT / 2)]
    for name, y in (("before", _HEIGHT / 2 - 4), ("after", _HEIGHT / 2 + 4)):
        value, first, last = shown.get(name, (None, None, None))
        if first is not None and last is not None:
            marks.append(tag("line", class_=f"span {name}", x1=x(first), x2=x(last), y1=y, y2=y))
        if value is not None:
            marks.append(tag("circle", class_=f"point {name}", cx=x(value), cy=y, r=3.6))
    label = f"{row.metric} from {low:g} to {high:g}"
    return tag("svg", *marks, viewBox=f"0 0 {_WIDTH} {_HEIGHT}", role="img", aria_label=label)


def _metrics(value: Any) -> dict[str, Any]:
    return {text(name): item for name, item in value.items()} if isinstance(value, dict) else {}
