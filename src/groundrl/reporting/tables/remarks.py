"""Remarks on cells, each said once with all the cells that it is about."""

from __future__ import annotations

from collections.abc import Sequence


def grouped(
    remarks: Sequence[tuple[str, str, str]], rows: Sequence[str], columns: Sequence[str]
) -> list[str]:
    """Lines `ROWS, COLUMNS: text` of (row, column, text) remarks, in the order of their first cell.

    Columns with the same text in the same rows share a line; `all rows` and `all columns` stand for
    everything that the table has.
    """
    by_text: dict[str, dict[str, list[str]]] = {}
    for row, column, text in remarks:
        by_text.setdefault(text, {}).setdefault(column, []).append(row)
    lines: list[str] = []
    for text, places in by_text.items():
        by_rows: dict[tuple[str, ...], list[str]] = {}
        for column, held in places.items():
            by_rows.setdefault(tuple(held), []).append(column)
        lines += [
            f"{_named(held, rows, 'rows')}, {_named(shared, columns, 'columns')}: {text}"
            for held, shared in by_rows.items()
        ]
    return lines


def _named(names: Sequence[str], every: Sequence[str], what: str) -> str:
    if len(every) > 1 and len(names) == len(every):
        return f"all {what}"
    return " + ".join(names)
