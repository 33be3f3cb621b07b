"""Fills the cells of a table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from groundrl.config.locate import closest
from groundrl.errors import UserError
from groundrl.reporting.experiments.expected import Expected
from groundrl.reporting.experiments.folder import Experiment, Results
from groundrl.reporting.experiments.layout import Column, Row
from groundrl.reporting.experiments.plan import Planner
from groundrl.reporting.experiments.values import Value, metric_names, run_value
from groundrl.reporting.seeds import SeedMean, seed_mean
from groundrl.reporting.tables.cell import (
    CONFLICT,
    DRIFT,
    MISSING,
    NOT_TESTABLE,
    PAPER,
    PARTIAL,
    UNKNOWN,
    Cell,
    Missing,
    Published,
)
from groundrl.reporting.tables.origin import origin
from groundrl.reporting.tables.runs import RowRuns, plain_commit, row_runs, scales_of
from groundrl.reporting.tables.table import Table

DEFAULT_SCALE = "tiny"


class MixedError(UserError):
    """Results of several scales or commits in one table."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """What the caller chose: `scale` None for the one that there are results of; `mixed` allows several."""

    scale: str | None = None
    mixed: bool = False


def build_table(experiment: Experiment, results: Results, planner: Planner, choice: Choice) -> Table:
    """The table of an experiment.

    Raises ConfigError on an axis that its sweep does not have, and MixedError where the results come from
    several scales or commits and neither the caller nor the file's `allow_mixed` allows it.
    """
    layout = experiment.layout
    scales, notes = _scales(experiment, results, choice)
    nodes = experiment.nodes["table"].items()["rows"].list()
    runs: dict[str, RowRuns] = {}
    for row, node in zip(layout.rows, nodes, strict=True):
        scale = scales[row.label]
        rows = results.of(row.source)
        wanted = _wanted(experiment, row, scale, planner)
        most = max([*wanted, *(entry.seed for entry in rows if entry.scale == scale)], default=0) + 1
        plan = planner(row.source, scale, most)
        axes = plan.check_axes(row.axes, node.items()["axes"])
        runs[row.label] = row_runs(plan, rows, axes, wanted)
    notes += _commits(experiment, runs, choice)
    cells = tuple(
        tuple(_cell(row, column, runs[row.label], experiment.expected) for column in layout.columns)
        for row in layout.rows
    )
    shown = [run for entry in runs.values() for run in entry.runs.values()]
    return Table(
        id=experiment.id,
        layout=layout,
        scale=", ".join(dict.fromkeys(scales.values())),
        cells=cells,
        runs=runs,
        expected=experiment.expected,
        origin=origin(shown),
        notes=tuple(notes),
    )


def _scales(experiment: Experiment, results: Results, choice: Choice) -> tuple[dict[str, str], list[str]]:
    """The scale of each row, and what must be said about it."""
    layout, fallback = experiment.layout, DEFAULT_SCALE
    if experiment.claims is not None:
        fallback = experiment.claims.scale
    fixed = choice.scale or layout.scale
    if fixed:
        return {row.label: fixed for row in layout.rows}, []
    found = {row.label: scales_of(results.of(row.source), row.axes) for row in layout.rows}
    every = sorted({scale for scales in found.values() for scale in scales})
    if len(every) <= 1:
        return {row.label: every[0] if every else fallback for row in layout.rows}, []
    where = f"results of several scales: {', '.join(every)}"
    reason = _allowed(experiment, choice, "scales", where, "choose one with SCALE=NAME")
    chosen = {label: scales[0] if scales else every[0] for label, scales in found.items()}
    return chosen, [f"rows of several scales stand in one table: {reason}"]


def _commits(experiment: Experiment, runs: Mapping[str, RowRuns], choice: Choice) -> list[str]:
    by_commit: dict[str, list[str]] = {}
    for label, entry in runs.items():
        for run in entry.runs.values():
            labels = by_commit.setdefault(plain_commit(run.commit)[:10], [])
            labels += [] if label in labels else [label]
    if len(by_commit) <= 1:
        return []
    where = "results of several commits: " + "; ".join(
        f"{commit} ({', '.join(labels)})" for commit, labels in sorted(by_commit.items())
    )
    reason = _allowed(experiment, choice, "commits", where, "run the older rows again")
    return [f"{where}: {reason}"]


def _allowed(experiment: Experiment, choice: Choice, kind: str, where: str, todo: str) -> str:
    if kind in experiment.layout.mixed:
        return experiment.layout.mixed[kind]
    if choice.mixed:
        return "allowed when the table was made"
    raise MixedError(
        f"{experiment.nodes['table'].file}: {where}; {todo}, allow it once with --allow-mixed, "
        f"or for good with allow_mixed: {{{kind}: REASON}} in the file"
    )


def _wanted(experiment: Experiment, row: Row, scale: str, planner: Planner) -> tuple[int, ...]:
    """The seeds of the claims where they are about this scale, else those of the sweep."""
    if experiment.claims is not None and experiment.claims.scale == scale:
        return experiment.claims.seeds
    return planner(row.source, scale, 0).seeds


def _cell(row: Row, column: Column, runs: RowRuns, expected: Expected | None) -> Cell:
    published, conflict = _published(row, column, expected)
    reason = column.not_testable.get(runs.scale) or runs.not_testable
    marks: list[str] = []
    notes: list[str] = []
    mean: SeedMean | None = None
    seeds: tuple[int, ...] = ()
    if reason:
        marks.append(NOT_TESTABLE)
        notes.append(f"not testable at {runs.scale}: {reason}")
    else:
        values = _values(row, column, runs)
        mean, seeds, notes = _mean(column, values, runs, row)
        if mean is None:
            marks.append(MISSING)
        else:
            if runs.scale != PAPER:
                marks.append(runs.scale)
            if set(runs.wanted) - set(seeds):
                marks.append(PARTIAL)
            drifted = [seed for seed in runs.drifted if seed in seeds]
            if drifted:
                marks.append(DRIFT)
                notes.append(f"other settings than today's in seed {_listed(drifted)}")
    if conflict:
        marks.append(CONFLICT)
    if not published:
        marks.append(UNKNOWN)
    comparable = mean is not None and len(published) == 1 and not runs.twins
    return Cell(
        row=row.label,
        column=column.label,
        metric=column.metric_of(row),
        unit=column.unit,
        scale=runs.scale,
        measured=mean,
        seeds=seeds,
        published=published,
        difference=mean.value - published[0].value if mean is not None and comparable else None,
        marks=tuple(marks),
        missing=_missing(runs, seeds) if MISSING in marks or PARTIAL in marks else None,
        notes=tuple(notes),
    )


def _values(row: Row, column: Column, runs: RowRuns) -> dict[int, Value]:
    metric = column.metric_of(row)
    found = {seed: run_value(run, metric, when=row.when, at=column.at) for seed, run in runs.runs.items()}
    return {seed: value for seed, value in found.items() if value is not None}


def _mean(
    column: Column, values: Mapping[int, Value], runs: RowRuns, row: Row
) -> tuple[SeedMean | None, tuple[int, ...], list[str]]:
    """Mean over seeds in the column's unit, the seeds in it, and what must be said."""
    notes: list[str] = []
    without = [seed for seed in runs.runs if seed not in values]
    if without:
        metric = column.metric_of(row)
        names = metric_names(runs.runs[without[0]])
        at = f" at {column.at:g} of the run" if column.at is not None else ""
        notes.append(f"no {metric}{at} in seed {_listed(without)}; {closest(metric, names)}".rstrip("; "))
    never = [seed for seed, value in values.items() if value.censored]
    if never:
        notes.append(f"no rise in seed {_listed(never)}, counted with the length of the run")
    if not values:
        return None, (), notes
    first = next(iter(values.values()))
    own = (first.low, first.high) if first.low is not None and first.high is not None else None
    untrained = row.when == "before" or all(runs.runs[seed].steps == 0 for seed in values)
    same = untrained and len({value.value for value in values.values()}) == 1
    mean = seed_mean([value.value for value in values.values()], own, same=same)
    if mean.within_run:
        why = "one seed" if len(values) == 1 else "nothing was trained, so seeds do not differ"
        notes.append(f"{why}: the interval is the run's own, over its scenes")
    return mean.scaled(100.0 if column.unit == "percent" else 1.0), tuple(values), notes


def _published(row: Row, column: Column, expected: Expected | None) -> tuple[tuple[Published, ...], bool]:
    if expected is None or row.published is None or column.published is None:
        return (), False
    conflict = expected.conflict(row.published, column.published)
    if conflict is not None:
        first = [name for name in expected.use if name in conflict.values]
        values = {name: conflict.values[name] for name in dict.fromkeys([*first, *conflict.values])}
    else:
        found = expected.published(row.published, column.published)
        values = dict([found]) if found else {}
    return (
        tuple(
            Published(value=_in_column(value, expected.sources[name].unit, column), source=name)
            for name, value in values.items()
        ),
        conflict is not None,
    )


def _in_column(value: float, unit: str, column: Column) -> float:
    """A share of a source in a percent column, and the other way round; other units are as printed."""
    if (unit, column.unit) == ("share", "percent"):
        return value * 100
    if (unit, column.unit) == ("percent", "share"):
        return value / 100
    return value


def _missing(runs: RowRuns, seeds: tuple[int, ...]) -> Missing | None:
    """None where all runs are there with today's settings: running them again would not bring the metric."""
    needed = [
        seed
        for seed in runs.wanted
        if seed not in seeds and (seed not in runs.runs or seed in runs.drifted) and seed in runs.planned
    ]
    if not needed:
        return None
    return Missing(
        sweep=runs.again,
        runs=tuple(runs.planned[seed].command for seed in needed),
    )


def _listed(seeds: list[int]) -> str:
    return ", ".join(map(str, seeds))
