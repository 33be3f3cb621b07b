"""Where the numbers of a table come from."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from groundrl.reporting.tables.runs import CHANGES, plain_commit
from groundrl.sweeping.results import ResultRow
from groundrl.tracking.numbers import duration


def distinct_runs(runs: Iterable[ResultRow]) -> list[ResultRow]:
    """Each run once, although several rows or experiments show it."""
    return list({(run.key, run.finished_at): run for run in runs}.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """Facts of the runs that a table shows, as (name, text) lines; no time of rendering among them."""

    facts: tuple[tuple[str, str], ...]


def origin(runs: Sequence[ResultRow]) -> Origin:
    """The origin of the runs; equal facts are said once."""
    own = distinct_runs(runs)
    if not own:
        return Origin(facts=())
    facts = [
        ("scale", _listed(run.scale for run in own)),
        ("stand-ins", _listed(f"{old} -> {new}" for run in own for old, new in run.twins.values())),
        ("runs", str(len(own))),
        ("seeds", _listed(run.seed for run in own)),
        ("steps", _listed(run.steps for run in own)),
        ("evaluated", _listed(f"{name} {count}" for run in own for name, count in run.samples.items())),
        ("finished", _dates(own)),
        ("training time", duration(sum(run.train_seconds for run in own))),
        ("commits", _listed(plain_commit(run.commit)[:10] for run in own)),
        ("machine", _listed(_machine(run) for run in own)),
        ("versions", _listed(f"{name} {version}" for run in own for name, version in run.versions.items())),
        ("start", _listed((run.start or "unknown")[:12] for run in own)),
    ]
    changed = sum(run.commit.endswith(CHANGES) for run in own)
    if changed:
        facts.append(("uncommitted changes", f"in the checkout of {changed} of {len(own)} runs"))
    return Origin(facts=tuple((name, text) for name, text in facts if text))


def _listed(values: Iterable[str | int]) -> str:
    return ", ".join(map(str, sorted(set(values), key=lambda value: (isinstance(value, str), value))))


def _dates(runs: Sequence[ResultRow]) -> str:
    days = sorted(run.finished_at[:10] for run in runs)
    return days[0] if days[0] == days[-1] else f"{days[0]} to {days[-1]}"


def _machine(run: ResultRow) -> str:
    return " ".join(f"{name} {value}" for name, value in sorted(run.machine.items()))
