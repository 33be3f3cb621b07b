"""The frozen runs behind a row of a table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from groundrl.reporting.experiments.plan import Plan
from groundrl.sweeping.cells import Cell as PlannedCell
from groundrl.sweeping.results import ResultRow

CHANGES = "+changes"


@dataclass(frozen=True, slots=True, kw_only=True)
class RowRuns:
    """A row's runs at a scale, one a seed, beside what the sweep asks for today.

    wanted   the seeds that the row should have
    again    the command that runs those that are missing
    drifted  seeds whose settings are not those that their words give today
    """

    source: str
    scale: str
    runs: Mapping[int, ResultRow]
    planned: Mapping[int, PlannedCell]
    wanted: tuple[int, ...]
    again: str = ""

    @property
    def absent(self) -> tuple[int, ...]:
        """Wanted seeds without a run."""
        return tuple(seed for seed in self.wanted if seed not in self.runs)

    @property
    def drifted(self) -> tuple[int, ...]:
        return tuple(seed for seed, run in self.runs.items() if run.key != self._key(seed))

    @property
    def twins(self) -> bool:
        """Whether a run used a stand-in for what was published."""
        return any(run.twins for run in self.runs.values())

    @property
    def not_testable(self) -> str | None:
        """Why this scale cannot answer, if it cannot."""
        return next((cell.not_testable for cell in self.planned.values() if cell.not_testable), None)

    def _key(self, seed: int) -> str | None:
        return self.planned[seed].key if seed in self.planned else None


def row_runs(
    plan: Plan, rows: Sequence[ResultRow], axes: Mapping[str, str], wanted: Sequence[int]
) -> RowRuns:
    """The runs with all of the swept settings `axes` at the plan's scale.

    Where a seed has several, the one with today's settings counts, else the last.
    """
    planned = plan.at(axes)
    chosen: dict[int, ResultRow] = {}
    for row in rows:
        if row.scale != plan.scale or row.axes != dict(axes):
            continue
        cell = planned.get(row.seed)
        held = chosen.get(row.seed)
        if held is None or cell is None or held.key != cell.key:
            chosen[row.seed] = row
    return RowRuns(
        source=plan.id,
        scale=plan.scale,
        runs=dict(sorted(chosen.items())),
        planned=planned,
        wanted=tuple(wanted),
        again=plan.again(len(wanted)),
    )


def scales_of(rows: Sequence[ResultRow], axes: Mapping[str, str]) -> list[str]:
    """Scales at which there are runs with `axes`, the paper's first."""
    found = {row.scale for row in rows if axes.items() <= row.axes.items()}
    return sorted(found, key=lambda scale: (scale != "paper", scale))


def plain_commit(commit: str) -> str:
    """A commit without the mark of uncommitted changes."""
    return commit.removesuffix(CHANGES)
