"""A table for a paper: `table.tex`, with booktabs."""

from __future__ import annotations

from groundrl.reporting.tables.cell import OK, Cell
from groundrl.reporting.tables.table import Table, headed, measured_text, published_text

_SPECIAL = {
    "\\": r"\textbackslash{}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_", "{": r"\{",
    "}": r"\}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "<": r"\textless{}",
    ">": r"\textgreater{}", "|": r"\textbar{}",
}  # fmt: skip


def render_latex(table: Table) -> str:
    r"""A `table` environment for `\input`; needs `\usepackage{booktabs}`.

    A row has two lines: measured, and published. Statuses stand as letters, explained below the table.
    """
    letters = {mark: chr(ord("a") + index) for index, (mark, _) in enumerate(_marks(table))}
    head = " & ".join(["", *(tex(headed(column)) for column in table.layout.columns)])
    lines = [
        "% Made by make table; needs booktabs.",
        r"\begin{table}",
        rf"\caption{{{tex(table.layout.title)}. {tex(table.layout.question)}}}",
        rf"\label{{tab:{table.id}}}",
        rf"\begin{{tabular}}{{l{'l' * len(table.layout.columns)}}}",
        r"\toprule",
        rf"{head} \\",
        r"\midrule",
    ]
    for row, cells in zip(table.layout.rows, table.cells, strict=True):
        lines.append(
            " & ".join([rf"{{{tex(row.label)}}}", *(_measured(cell, letters) for cell in cells)]) + r" \\"
        )
        published = [tex(published_text(cell)) or "--" for cell in cells]
        lines.append(" & ".join([r"\quad published", *published]) + r" \\")
    lines += [r"\bottomrule", r"\end{tabular}"]
    if letters:
        told = "; ".join(f"$^{{{letters[mark]}}}$ {tex(mark)}: {tex(text)}" for mark, text in _marks(table))
        lines.append(rf"\par\footnotesize Mean over seeds [95\,\% interval]. {told}.")
    return "\n".join([*lines, r"\end{table}"]) + "\n"


def tex(text: str) -> str:
    """Plain text in LaTeX."""
    return "".join(_SPECIAL.get(letter, letter) for letter in text)


def _marks(table: Table) -> list[tuple[str, str]]:
    return [(mark, text) for mark, text in table.legend() if mark != OK]


def _measured(cell: Cell, letters: dict[str, str]) -> str:
    marks = ",".join(letters[mark] for mark in cell.marks)
    return (tex(measured_text(cell)) or "--") + (f"$^{{{marks}}}$" if marks else "")
