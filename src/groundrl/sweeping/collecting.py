"""From a finished run folder to a row of results."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from groundrl.errors import DataError
from groundrl.sweeping.cell_folder import result, saved_config
from groundrl.sweeping.cells import Cell
from groundrl.sweeping.key import config_key
from groundrl.sweeping.results import ResultRow
from groundrl.tracking.base import EVAL, HELD_OUT, TRAIN, Interval
from groundrl.tracking.jsonl import FILE_NAME
from groundrl.tracking.lines import read_lines
from groundrl.tracking.numbers import bounds, finite

MOST_POINTS = 120
DIGITS = 6
LEFT_OUT_OF_CURVES = ("time/", "perf/", "parse/", "group/zero_spread_")
LEFT_OUT_OF_BENCHMARKS = ("parse/", "monitor/", "reward/")


def row_of(run: Path, cell: Cell, claims_commit: str | None) -> ResultRow:
    """The result of a finished run as a row for `cell`.

    Raises DataError when the run has not finished or its settings are not the cell's.
    """
    found = result(run)
    if found.get("status") != "finished":
        raise DataError(run, "is no finished run", todo=f"go on with: python train.py resume={run}")
    config = saved_config(run)
    key = config_key(config)
    if key != cell.key:
        problem = f"has other settings (key {key}) than {cell.name} of {cell.id} (key {cell.key})"
        raise DataError(run, problem, todo="collect it for the sweep that it belongs to")
    facts, evals = _mapping(found, "run"), _mapping(found, "eval")
    before, after = metrics(evals, "before"), metrics(evals, "after")
    return ResultRow(
        key=key,
        id=cell.id,
        scale=cell.scale,
        axes=cell.axes,
        twins=cell.twins,
        seed=cell.seed,
        words=cell.words,
        commit=str(facts.get("commit", "unknown")),
        claims_commit=claims_commit,
        finished_at=str(facts.get("finished_at", "")),
        versions=_versions(facts.get("versions")),
        machine=_texts(facts.get("machine") or {"device": facts.get("device", "unknown")}),
        data=_data(facts, evals),
        start=facts.get("start_fingerprint") or facts.get("model_sha256"),
        steps=int(found.get("steps", 0)),
        train_seconds=float(found.get("train_seconds", 0.0)),
        samples=_samples(run, config, evals, before),
        before=before,
        after=after,
        curves=curves(run / FILE_NAME),
    )


def metrics(evals: Mapping[str, Any], when: str) -> dict[str, Interval]:
    """The metrics of `result.json` before or after training, flat, as `ResultRow` names them."""
    out = {name: _interval(value) for name, value in _mapping(evals, when).items()}
    for benchmark, entry in _benchmarks(evals).items():
        for name, value in _mapping(entry, when).items():
            own = name.removeprefix("greedy/")
            if not own.startswith(LEFT_OUT_OF_BENCHMARKS):
                out[f"{benchmark}/{own}"] = _interval(value)
    return out


def curves(file: Path) -> dict[str, list[tuple[int, float]]]:
    """Every metric of a `metrics.jsonl` over the steps; of a step logged twice the last line counts."""
    points: dict[str, dict[int, float]] = {}
    for record in read_lines(file).records if file.is_file() else ():
        step = finite(record.get("step"))
        if step is None or record.get("kind") not in (TRAIN, EVAL):
            continue
        for name, value in _mapping(record, "metrics").items():
            number, *_ = bounds(value)
            if number is not None and _drawn(name, record["kind"]):
                points.setdefault(name, {})[int(step)] = _rounded(number)
    return {name: thinned(sorted(own.items())) for name, own in sorted(points.items())}


def thinned(points: Sequence[tuple[int, float]], limit: int = MOST_POINTS) -> list[tuple[int, float]]:
    """At most `limit` of the points, evenly over their number, the first and the last kept."""
    last = len(points) - 1
    if last < limit:
        return list(points)
    return [points[round(number * last / (limit - 1))] for number in range(limit)]


def _drawn(name: str, kind: str) -> bool:
    if kind == TRAIN:
        return not name.startswith(LEFT_OUT_OF_CURVES)
    own = name.partition("/")[2]
    if name.partition("/")[0] in HELD_OUT:
        return not own.startswith(LEFT_OUT_OF_CURVES)
    return not own.startswith(LEFT_OUT_OF_BENCHMARKS)


def _samples(
    run: Path, config: Mapping[str, Any], evals: Mapping[str, Any], before: Mapping[str, Interval]
) -> dict[str, int]:
    """How many samples were evaluated: those of the stored answers, which end where the data ends."""
    out: dict[str, int] = {}
    if any(name.partition("/")[0] in HELD_OUT for name in before):
        answers = run / "eval" / "before.jsonl"
        ids = {r.get("sample_id") for r in read_lines(answers).records} if answers.is_file() else set[Any]()
        out["heldout"] = len(ids) or int(_mapping(config, "eval").get("samples", 0))
    return out | {name: int(entry.get("samples", 0)) for name, entry in _benchmarks(evals).items()}


def _data(facts: Mapping[str, Any], evals: Mapping[str, Any]) -> dict[str, str]:
    out = {name: str(facts[key]) for name in ("train", "heldout") if (key := f"{name}_fingerprint") in facts}
    return out | {name: str(entry.get("fingerprint", "")) for name, entry in _benchmarks(evals).items()}


def _versions(given: Any) -> dict[str, str]:
    """`python 3.11.7, torch 2.13.0` or a mapping."""
    if isinstance(given, str):
        return {name: version for name, _, version in (one.partition(" ") for one in given.split(", "))}
    return _texts(given)


def _texts(given: Any) -> dict[str, str]:
    return {str(name): str(value) for name, value in given.items()} if isinstance(given, Mapping) else {}


def _interval(value: Any) -> Interval:
    number, low, high = (None if part is None else _rounded(part) for part in bounds(value))
    return Interval(value=number, low=low, high=high)


def _rounded(number: float) -> float:
    """Six significant digits: far below any difference between seeds, half the size in git."""
    return round(number, DIGITS - 1 - math.floor(math.log10(abs(number)))) if number else 0.0


def _benchmarks(evals: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    found = _mapping(evals, "benchmarks")
    return {name: _mapping(found, name) for name in found}


def _mapping(values: Mapping[str, Any], name: str) -> dict[str, Any]:
    found = values.get(name)
    return dict(found) if isinstance(found, Mapping) else {}
