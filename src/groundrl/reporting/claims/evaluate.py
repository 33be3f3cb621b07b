"""The claims of an experiment against its frozen results."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from groundrl.config.locate import closest
from groundrl.reporting.claims.counting import Counting
from groundrl.reporting.claims.history import History
from groundrl.reporting.claims.holm import holm
from groundrl.reporting.claims.paired import Paired, paired
from groundrl.reporting.claims.verdict import ClaimResult, TestResult, Verdict, judge
from groundrl.reporting.experiments.claim_file import Claims, ClaimTest, Side
from groundrl.reporting.experiments.folder import Results
from groundrl.reporting.experiments.plan import Planner
from groundrl.reporting.experiments.values import Value, metric_names, run_value
from groundrl.reporting.tables.runs import RowRuns, row_runs
from groundrl.sweeping.results import ResultRow

Obstacle = tuple[Verdict, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Compared:
    """A test before the correction over all of them."""

    test: ClaimTest
    paired: Paired | None
    obstacles: tuple[Obstacle, ...]
    notes: tuple[str, ...]


def evaluate_claims(
    claims: Claims, id: str, results: Results, planner: Planner, history: History
) -> tuple[ClaimResult, ...]:
    """A verdict for each claim of experiment `id`, in the file's order.

    Each test is paired by seed (`paired`); Holm's correction goes over all tests of the file, once for the
    claimed directions and once against them. A test that cannot decide enters it with p = 1.
    """
    counting = Counting(claims, id, history)
    compared = [_compare(test, claims, results, planner, counting) for test in claims.tests()]
    holds = holm([_p(entry, against=False) for entry in compared])
    fails = holm([_p(entry, against=True) for entry in compared])
    done = iter(
        TestResult(
            test=entry.test,
            paired=entry.paired,
            holds=own,
            fails=other,
            obstacles=entry.obstacles,
            notes=entry.notes,
        )
        for entry, own, other in zip(compared, holds, fails, strict=True)
    )
    return tuple(
        judge(claim, tuple(next(done) for _ in claim.tests), claims.alpha) for claim in claims.claims
    )


def _p(entry: _Compared, *, against: bool) -> float:
    if entry.paired is None or entry.obstacles:
        return 1.0
    return entry.paired.greater if (entry.test.direction == "greater") != against else entry.paired.less


def _compare(
    test: ClaimTest, claims: Claims, results: Results, planner: Planner, counting: Counting
) -> _Compared:
    a = _runs(test.a, claims, results, planner)
    b = a if test.b is None else _runs(test.b, claims, results, planner)
    obstacles: list[Obstacle] = []
    for side in (a, b) if test.b is not None else (a,):
        if side.not_testable:
            obstacles.append((Verdict.not_testable, side.not_testable))
        elif side.absent:
            problem = f"seed {_listed(side.absent)} of {side.source}; {side.again}"
            obstacles.append((Verdict.missing, problem))
    first = {seed: run_value(run, test.metric, at=test.at) for seed, run in a.runs.items()}
    when = "before" if test.b is None else None
    second = {
        seed: run_value(run, test.metric, when=when, at=None if when else test.at)
        for seed, run in b.runs.items()
    }
    obstacles += _unmeasured(test, claims, a, first) + _unmeasured(test, claims, b, second)
    for run in {id(run): run for side in (a, b) for run in _declared(side, claims)}.values():
        refused = counting.refusal(run)
        if refused:
            obstacles.append((Verdict.not_counted, f"{run.id}, seed {run.seed}: {refused}"))
    pairs = [
        (x, y)
        for seed in claims.seeds
        if (x := first.get(seed)) is not None and (y := second.get(seed)) is not None
    ]
    whole = len(pairs) == len(claims.seeds)
    return _Compared(
        test=test,
        paired=paired([x.value for x, _ in pairs], [y.value for _, y in pairs], alpha=claims.alpha)
        if whole
        else None,
        obstacles=tuple(dict.fromkeys(obstacles)),
        notes=_notes(first, second),
    )


def _runs(side: Side, claims: Claims, results: Results, planner: Planner) -> RowRuns:
    plan = planner(side.source, claims.scale, max(claims.seeds) + 1)
    axes = {name: side.axes.get(name, values[0]) for name, values in plan.axes.items()}
    return row_runs(plan, results.of(side.source), axes, claims.seeds)


def _declared(side: RowRuns, claims: Claims) -> list[ResultRow]:
    return [run for seed, run in side.runs.items() if seed in claims.seeds]


def _unmeasured(
    test: ClaimTest, claims: Claims, side: RowRuns, values: Mapping[int, Value | None]
) -> list[Obstacle]:
    """What stands in the way in the runs themselves: no such metric, or too few scenes."""
    found: list[Obstacle] = []
    for run in _declared(side, claims):
        value = values[run.seed]
        if value is None:
            names = metric_names(run)
            problem = f"{run.id}, seed {run.seed} has no {test.metric}; {closest(test.metric, names)}"
            found.append((Verdict.missing, problem.rstrip("; ")))
        elif value.evaluated is not None:
            count = run.samples.get(value.evaluated, 0)
            if count < claims.samples:
                problem = f"{value.evaluated} has {count} scenes, the claims ask for {claims.samples}"
                found.append((Verdict.not_informative, problem))
    return found


def _notes(*sides: Mapping[int, Value | None]) -> tuple[str, ...]:
    censored = sum(value is not None and value.censored for side in sides for value in side.values())
    return (f"{censored} runs never rose and count with their length",) if censored else ()


def _listed(seeds: tuple[int, ...]) -> str:
    return ", ".join(map(str, seeds))
