"""The files of an experiment's table: made, written, compared."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from groundrl.reporting.claims.evaluate import evaluate_claims
from groundrl.reporting.claims.history import History
from groundrl.reporting.claims.markdown import claim_lines, render_claims
from groundrl.reporting.claims.verdict import ClaimResult
from groundrl.reporting.experiments.folder import Experiment, Results, check_axes, read_experiment
from groundrl.reporting.experiments.plan import Planner
from groundrl.reporting.figures import draw_figures, figure_name, has_results
from groundrl.reporting.tables.build import Choice, build_table
from groundrl.reporting.tables.latex import render_latex
from groundrl.reporting.tables.lines import render_csv
from groundrl.reporting.tables.markdown import render_markdown
from groundrl.reporting.tables.page import render_html
from groundrl.reporting.tables.table import Table
from groundrl.sweeping.layout import Layout
from groundrl.tracking.lines import write_atomic

FIGURES = "figures"


@dataclass(frozen=True, slots=True, kw_only=True)
class Made:
    """A table, its verdicts, and the text of each of its files by name."""

    table: Table
    verdicts: tuple[ClaimResult, ...]
    texts: Mapping[str, str]


class Maker:
    """Makes tables of the experiments in `places`, each results file read and each sweep composed once."""

    def __init__(self, places: Layout, planner: Planner, history: History) -> None:
        self._places, self._planner, self._history = places, planner, history
        self._results = Results(places)

    def make(self, id: str, choice: Choice) -> Made:
        """The files of an experiment from its frozen results. Raises UserError."""
        experiment = read_experiment(self._places, id)
        table = build_table(experiment, self._results, self._planner, choice)
        check_axes(experiment, self._planner, table.scale.split(", ")[0])
        verdicts = self._verdicts(experiment)
        section = render_claims(experiment.claims, verdicts) if experiment.claims else ""
        names = [figure_name(figure) for figure in table.layout.figures if has_results(figure, table)]
        texts = {
            "table.md": render_markdown(table, [f"{FIGURES}/{name}" for name in names], section),
            "table.csv": render_csv(table),
            "table.tex": render_latex(table),
            "table.html": render_html(table, claim_lines(verdicts)),
        }
        if section:
            texts["claims.md"] = f"# {id}\n\n{section}"
        return Made(table=table, verdicts=verdicts, texts=texts)

    def shown(self, made: Made) -> str:
        """The folder of a table's files, for people."""
        return self._places.shown(self._places.made(made.table.id))

    def write(self, made: Made) -> str:
        """Replace the files of a table and draw its figures anew; returns their folder, for people.

        Raises OSError.
        """
        folder = self._places.made(made.table.id)
        for name, text in made.texts.items():
            write_atomic(folder / name, text.encode())
        drawn = draw_figures(made.table)
        for old in sorted((folder / FIGURES).glob("*.svg")):
            if old.name not in drawn:
                old.unlink()
        for name, content in drawn.items():
            write_atomic(folder / FIGURES / name, content)
        return self.shown(made)

    def stale(self, made: Made) -> list[str]:
        """Files that are not there or say something else; of figures only whether they are there."""
        folder = self._places.made(made.table.id)
        found = [name for name, text in made.texts.items() if _text(folder / name) != text]
        wanted = [figure for figure in made.table.layout.figures if has_results(figure, made.table)]
        missing = [f"{FIGURES}/{figure_name(figure)}" for figure in wanted]
        return found + [name for name in missing if not (folder / name).is_file()]

    def _verdicts(self, experiment: Experiment) -> tuple[ClaimResult, ...]:
        if experiment.claims is None:
            return ()
        self._history.check()
        return evaluate_claims(experiment.claims, experiment.id, self._results, self._planner, self._history)


def _text(path: Path) -> str | None:
    return path.read_text("utf-8") if path.is_file() else None
