"""Which cells have a result already, in this experiment or in another that shares them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from groundrl.sweeping.cells import Cell
from groundrl.sweeping.claims_commit import claims_commit
from groundrl.sweeping.layout import Layout
from groundrl.sweeping.results import ResultRow, append_result, read_results


@dataclass(frozen=True, slots=True, kw_only=True)
class Reuse:
    """done: cells with a row of their own; copied: cells that got one now, and from which experiment;
    to_run: the others that can run; not_testable: cells without an answer at this scale."""

    done: list[Cell]
    copied: list[tuple[Cell, str]]
    to_run: list[Cell]
    not_testable: list[Cell]


def reuse(layout: Layout, cells: Sequence[Cell]) -> Reuse:
    """Sort the cells of one sweep, and copy the results of cells that were run elsewhere.

    A key runs once: of two cells of the sweep with the same settings the second is copied when the first has
    run. Raises DataError when a results file is damaged.
    """
    rows = [row for file in layout.all_results() for row in read_results(file)]
    found = Reuse(done=[], copied=[], to_run=[], not_testable=[])
    coming: set[str] = set()
    for cell in cells:
        if cell.not_testable is not None:
            found.not_testable.append(cell)
            continue
        same = [row for row in rows if row.key == cell.key]
        if any(row.id == cell.id and row.axes == cell.axes for row in same):
            found.done.append(cell)
        elif same:
            append_result(layout.results(cell.id), copied(layout, same[0], cell))
            found.copied.append((cell, same[0].id))
        elif cell.key not in coming:
            coming.add(cell.key)
            found.to_run.append(cell)
    return found


def copied(layout: Layout, row: ResultRow, cell: Cell) -> ResultRow:
    """A row for `cell` from one with the same key. Its claims are those of the commit that it ran at."""
    claims = claims_commit(layout, cell.id, at=row.commit)
    return replace(row, id=cell.id, scale=cell.scale, axes=cell.axes, twins=cell.twins, claims_commit=claims)
