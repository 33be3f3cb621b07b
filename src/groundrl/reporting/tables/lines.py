"""A table as CSV, one line a cell: `table.csv`."""

from __future__ import annotations

import csv
import io

from groundrl.reporting.tables.cell import Cell
from groundrl.reporting.tables.table import Table

COLUMNS = (
    "id", "row", "column", "metric", "unit", "scale", "mean", "low", "high", "seeds", "interval",
    "published", "source", "difference", "status", "sweep", "run", "notes",
)  # fmt: skip


def render_csv(table: Table) -> str:
    """Numbers with six significant digits; `run` is the first single run that is missing.

    Several published numbers and their sources, of a conflict, are joined by ` or `.
    """
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(COLUMNS)
    for cell in table.all_cells():
        writer.writerow([table.id, *_fields(cell)])
    return out.getvalue()


def _fields(cell: Cell) -> list[str]:
    mean = cell.measured
    interval = "" if mean is None or mean.low is None else "run" if mean.within_run else "seeds"
    return [
        cell.row,
        cell.column,
        cell.metric,
        cell.unit,
        cell.scale,
        _number(mean.value if mean else None),
        _number(mean.low if mean else None),
        _number(mean.high if mean else None),
        " ".join(map(str, cell.seeds)),
        interval,
        " or ".join(f"{entry.value:.10g}" for entry in cell.published),
        " or ".join(entry.source for entry in cell.published),
        _number(cell.difference),
        cell.status,
        cell.missing.sweep if cell.missing else "",
        cell.missing.runs[0] if cell.missing and cell.missing.runs else "",
        "; ".join(cell.notes),
    ]


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.6g}"
