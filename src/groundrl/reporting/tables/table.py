"""A table: rows by columns, and what must be said beside it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from groundrl.reporting.experiments.expected import Expected
from groundrl.reporting.experiments.layout import Column, TableLayout
from groundrl.reporting.tables.cell import LEGEND, OK, Cell, scale_legend
from groundrl.reporting.tables.origin import Origin
from groundrl.reporting.tables.remarks import grouped
from groundrl.reporting.tables.runs import RowRuns
from groundrl.tracking.numbers import number


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """`cells` are in the order of rows, then columns; `runs` are those of each row, by its label."""

    id: str
    layout: TableLayout
    scale: str
    cells: tuple[tuple[Cell, ...], ...]
    runs: Mapping[str, RowRuns]
    expected: Expected | None
    origin: Origin
    notes: tuple[str, ...] = ()

    def all_cells(self) -> list[Cell]:
        return [cell for row in self.cells for cell in row]

    def counts(self) -> str:
        """`12 cells: 8 tiny, 4 missing`, a cell under each of its marks."""
        marks = [mark for cell in self.all_cells() for mark in cell.marks or (OK,)]
        return f"{len(self.all_cells())} cells: " + ", ".join(
            f"{marks.count(mark)} {mark}" for mark in dict.fromkeys(marks)
        )

    def legend(self) -> list[tuple[str, str]]:
        """(mark, what it says) of all marks in the table, in the order of the legend."""
        used = {mark for cell in self.all_cells() for mark in cell.marks or (OK,)}
        lines = [(mark, text) for mark, text in LEGEND.items() if mark in used]
        for scale in sorted(used - set(LEGEND)):
            twins = any(runs.twins for runs in self.runs.values() if runs.scale == scale)
            lines.append((scale, scale_legend(scale, twins=twins)))
        return lines

    def caveats(self) -> list[str]:
        """Notes of the whole table and of single cells, doubts and conflicts of what is published."""
        lines = list(self.notes)
        remarks = [(cell.row, cell.column, note) for cell in self.all_cells() for note in cell.notes]
        rows, columns = ([entry.label for entry in part] for part in (self.layout.rows, self.layout.columns))
        lines += grouped(remarks, rows, columns)
        if self.expected is not None:
            for conflict in self.expected.conflicts:
                values = ", ".join(f"{value:.10g} ({name})" for name, value in conflict.values.items())
                about = f"; {conflict.note}" if conflict.note else ""
                lines.append(f"published {conflict.row}, {conflict.column}: {values}{about}")
            lines += [f"published: {doubt}" for doubt in self.expected.doubts]
        return lines

    def sources(self) -> list[str]:
        """One line on each source of published numbers in use."""
        if self.expected is None:
            return []
        named = {published.source for cell in self.all_cells() for published in cell.published}
        return [
            f"{name}: {source.what} ({source.quality.replace('_', ' ')})"
            for name, source in self.expected.sources.items()
            if name in named
        ]

    def missing(self) -> list[tuple[str, tuple[str, ...]]]:
        """(sweep command, its single runs) of all that is not measured, each once."""
        found: dict[str, dict[str, None]] = {}
        for cell in self.all_cells():
            if cell.missing is not None:
                found.setdefault(cell.missing.sweep, {}).update(dict.fromkeys(cell.missing.runs))
        return [(sweep, tuple(runs)) for sweep, runs in found.items()]


def headed(column: Column) -> str:
    """`mAP (%)`, `step (steps)`; the label alone where it names its unit."""
    unit = "%" if column.unit == "percent" else column.unit
    return column.label if unit == "none" or unit in column.label.split() else f"{column.label} ({unit})"


def measured_text(cell: Cell) -> str:
    """`21.3 [20.1, 22.5]`, and how many seeds where it is one: `21.3 [19.0, 23.4] (1 seed)`; empty if none.

    Percent, tokens and counts have one decimal, steps none, shares and numbers without a unit three digits.
    """
    mean = cell.measured
    if mean is None:
        return ""
    text = in_unit(mean.value, cell.unit)
    if mean.low is not None and mean.high is not None:
        text += f" [{in_unit(mean.low, cell.unit)}, {in_unit(mean.high, cell.unit)}]"
    return f"{text} (1 seed)" if mean.n == 1 else text


def published_text(cell: Cell) -> str:
    """`21.1`, or in a conflict each number once, `67.34 or 57.57`; empty if nothing is published."""
    return " or ".join(dict.fromkeys(f"{entry.value:.10g}" for entry in cell.published))


def difference_text(cell: Cell) -> str:
    """`+0.2`, empty where none is given."""
    return "" if cell.difference is None else in_unit(cell.difference, cell.unit, signed=True)


def in_unit(value: float, unit: str, *, signed: bool = False) -> str:
    """A number of a column."""
    plus = "+" if signed else ""
    if unit in ("percent", "tokens", "count"):
        return f"{value:{plus}.1f}"
    if unit == "steps":
        return f"{value:{plus}.0f}"
    if unit == "share":
        return f"{value:{plus}.3f}"
    return (plus if value >= 0 else "") + number(value)
