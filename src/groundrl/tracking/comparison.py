"""Before and after training, metric by metric."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from groundrl.tracking.numbers import bounds, interval

EvalMetrics = Mapping[str, Any]
"""Flat metric name to {"value", "low", "high"}, or to a plain number."""

MARK = "*"
NOTE = f"{MARK} the interval of the difference excludes 0"


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """One metric: its values by column name, the difference, and whether that is clear of 0."""

    metric: str
    columns: Mapping[str, Any]
    difference: Any = None

    @property
    def clear(self) -> bool:
        """The interval of the difference lies on one side of 0."""
        _, low, high = bounds(self.difference)
        return low is not None and high is not None and (low > 0 or high < 0)


def compare(
    before: EvalMetrics | None,
    after: EvalMetrics | None,
    difference: EvalMetrics | None = None,
    references: Mapping[str, EvalMetrics] | None = None,
) -> list[Comparison]:
    """One row a metric, in the order of `after`, then what only `before` has.

    Columns are "before", "after" and the names of `references`, those that have values. A difference that
    is not given is after - before without an interval: the interval of a paired difference cannot be had
    from the two intervals.
    """
    sources = {"before": before, "after": after, **(references or {})}
    present = {name: values for name, values in sources.items() if values}
    metrics: list[str] = [*(after or {}), *(name for name in before or {} if name not in (after or {}))]
    rows: list[Comparison] = []
    for metric in metrics:
        columns = {name: values.get(metric) for name, values in present.items()}
        given = (difference or {}).get(metric)
        if given is None:
            first, last = bounds(columns.get("before"))[0], bounds(columns.get("after"))[0]
            given = last - first if first is not None and last is not None else None
        rows.append(Comparison(metric=metric, columns=columns, difference=given))
    return rows


def cells(rows: Sequence[Comparison]) -> tuple[list[str], list[list[str]]]:
    """Heading and text cells of a table of `rows`; the last column is the difference, marked when clear."""
    if not rows:
        return [], []
    has_difference = any(row.difference is not None for row in rows)
    heading = ["metric", *rows[0].columns, *(["difference"] if has_difference else [])]
    body: list[list[str]] = []
    for row in rows:
        line = [row.metric, *(interval(value) for value in row.columns.values())]
        if has_difference:
            mark = f" {MARK}" if row.clear else ""
            line.append(interval(row.difference, signed=True) + mark)
        body.append(line)
    return heading, body


def text_table(heading: Sequence[str], body: Sequence[Sequence[str]], width: int | None = None) -> list[str]:
    """Lines of an aligned table; where `width` is too narrow for it, one block of lines a row instead."""
    table = [heading, *body]
    widths = [max(len(row[index]) for row in table) for index in range(len(heading))]
    if width is None or sum(widths) + 2 * (len(widths) - 1) <= width:
        padded = ([cell.ljust(size) for cell, size in zip(row, widths, strict=True)] for row in table)
        return ["  ".join(row).rstrip() for row in padded]
    label = max(len(name) for name in heading)
    lines: list[str] = []
    for row in body:
        lines.append(row[0])
        named = zip(heading[1:], row[1:], strict=True)
        lines.extend(f"  {name.ljust(label)}  {cell}" for name, cell in named)
    return lines
