"""A table as Markdown: `table.md`."""

from __future__ import annotations

import re
from collections.abc import Sequence

from groundrl.reporting.tables.cell import Cell
from groundrl.reporting.tables.table import Table, difference_text, headed, measured_text, published_text


def render_markdown(table: Table, figures: Sequence[str] = (), claims: str = "") -> str:
    """The page of a table: table, legend, what is missing, caveats, origin, figures, claims.

    figures  paths relative to the page
    claims   the claims' own Markdown, put at the end
    """
    parts = [f"# {table.id}: {escape(table.layout.title)}", escape(table.layout.question), _grid(table)]
    parts.append(
        "Measured mean over seeds [95 % interval over seeds], published number, difference where both were "
        "measured alike, status."
    )
    parts.append("\n".join(f"* **{mark}**: {text}" for mark, text in table.legend()))
    if table.missing():
        parts.append("## Missing")
        for sweep, runs in table.missing():
            told = f"or {len(runs)} single run{'' if len(runs) == 1 else 's'}"
            parts.append(_code([sweep]))
            parts.append(f"<details><summary>{told}</summary>\n\n{_code(runs)}\n\n</details>")
    if table.caveats():
        parts.append("## Caveats\n\n" + _points(table.caveats()))
    if table.sources():
        parts.append("## Published in\n\n" + _points(table.sources()))
    if table.origin.facts:
        parts.append("## Origin\n\n" + _points([f"{name}: {text}" for name, text in table.origin.facts]))
    if figures:
        parts.append("## Figures\n\n" + "\n".join(f"![{_alt(path)}]({path})" for path in figures))
    if claims:
        parts.append(claims.strip())
    return "\n\n".join(parts) + "\n"


def markdown_grid(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A pipe table; its cells are Markdown already."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in lines)


def escape(text: str) -> str:
    """Plain text as Markdown, safe in a table's cell too."""
    for old, new in (
        ("\\", "\\\\"), ("|", "\\|"), ("*", "\\*"), ("`", "\\`"), ("[", "\\["),
        ("&", "&amp;"), ("<", "&lt;"), ("\n", " "),
    ):  # fmt: skip
        text = text.replace(old, new)
    return re.sub(r"(?<!\w)_|_(?!\w)", r"\\_", text)  # within a word it is plain


def _grid(table: Table) -> str:
    header = ["", *(escape(headed(column)) for column in table.layout.columns)]
    rows = [
        [escape(row.label), *(_cell(cell) for cell in cells)]
        for row, cells in zip(table.layout.rows, table.cells, strict=True)
    ]
    return markdown_grid(header, rows)


def _cell(cell: Cell) -> str:
    lines = [f"**{measured}**" if (measured := measured_text(cell)) else ""]
    published, difference = escape(published_text(cell)), difference_text(cell)
    if published:
        lines.append(f"published {published}" + (f" ({difference})" if difference else ""))
    lines.append(f"*{cell.status}*")
    return "<br>".join(line for line in lines if line)


def _code(lines: Sequence[str]) -> str:
    return "```\n" + "\n".join(lines) + "\n```"


def _points(lines: Sequence[str]) -> str:
    return "\n".join(f"* {escape(line)}" for line in lines)


def _alt(path: str) -> str:
    return path.rpartition("/")[2].rpartition(".")[0]
