"""Evaluations of a run: its held-out split and its benchmarks, kept as answers in the run folder."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from groundrl.errors import ConfigError
from groundrl.evaluation.benchmarks import Benchmark
from groundrl.evaluation.stored import Journal
from groundrl.evaluation.suite import Evaluation, Suite, as_json, judged
from groundrl.tracking.base import Interval

if TYPE_CHECKING:
    from groundrl.training.parts import Parts

BEFORE = "before"
AFTER = "after"


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchmarkSuite:
    """A benchmark and what evaluates it. `facts`: what else belongs to its result."""

    benchmark: Benchmark
    suite: Suite
    facts: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """One evaluation of everything: the held-out split (None: only benchmarks), and benchmarks by name."""

    heldout: Evaluation | None
    benchmarks: dict[str, Evaluation] = field(default_factory=dict[str, Evaluation])

    def metrics(self) -> dict[str, Interval]:
        """Flat names: greedy/... and sampled/... of the held-out split, NAME/... of a benchmark (greedy)."""
        out = as_json(self.heldout.metrics) if self.heldout is not None else {}
        for name, evaluation in self.benchmarks.items():
            for metric, value in as_json(evaluation.metrics).items():
                out[f"{name}/{metric.removeprefix('greedy/')}"] = value
        return out


def answers_file(folder: Path, when: str, benchmark: str | None = None) -> Path:
    """Where the answers of an evaluation before or after training are."""
    return folder / "eval" / (benchmark or ".") / f"{when}.jsonl"


def measure(parts: Parts, samples: int, *, progress: float, when: str | None = None) -> Measured:
    """Evaluate the present policy; the answers of `when` (before, after) are stored, others are not.

    With `algorithm=eval_only` and benchmarks, these alone are evaluated. Raises ConfigError.
    """
    trains = parts.learner is not None
    heldout: Evaluation | None = None
    if trains or not parts.benchmarks:
        heldout = _evaluated(parts, parts.suite, samples, progress, when, None)
    found: dict[str, Evaluation] = {}
    for own in parts.benchmarks if when is not None or parts.config.eval.during else ():
        name = own.benchmark.name
        parts.display.stage(f"eval {name}")
        try:
            found[name] = _evaluated(parts, own.suite, own.benchmark.config.samples, progress, when, name)
        except ConfigError as error:
            raise error.at(f"eval.benchmarks.{name}") from None
    return Measured(heldout=heldout, benchmarks=found)


def _evaluated(
    parts: Parts, suite: Suite, samples: int | None, progress: float, when: str | None, name: str | None
) -> Evaluation:
    if when is None:
        return suite.evaluate(samples, progress=progress)
    world = suite.world
    world.barrier()  # until all have read what is there, nothing is added
    journal = Journal(answers_file(parts.folder.path, when, name), writes=world.first)
    world.barrier()
    try:
        return suite.evaluate(samples, progress=progress, journal=journal)
    finally:
        journal.close()


def stored(parts: Parts, when: str, *, progress: float) -> Measured:
    """An evaluation of an earlier part of the run, judged again from its answers. Raises CheckpointError."""
    folder, samples = parts.folder.path, parts.config.eval.samples
    heldout = judged(
        answers_file(folder, when), parts.suite.samples(samples), parts.suite.judge, progress=progress
    )
    benchmarks = {
        own.benchmark.name: judged(
            answers_file(folder, when, own.benchmark.name),
            own.suite.samples(own.benchmark.config.samples),
            own.suite.judge,
            progress=progress,
        )
        for own in parts.benchmarks
    }
    return Measured(heldout=heldout, benchmarks=benchmarks)


def results(parts: Parts, before: Measured, after: Measured | None) -> dict[str, Any]:
    """What `result.json` says of the evaluations: metrics with intervals, paired differences, limits."""
    model = parts.config.model
    pixels: dict[str, int] = {"min_pixels": model.min_pixels, "max_pixels": model.max_pixels}
    limits = {**pixels, "max_new_tokens": parts.suite.sampling.max_new_tokens}
    out = _compared(parts.suite, before.heldout, after.heldout if after else None)
    out["limits"] = limits
    for own in parts.benchmarks:
        name = own.benchmark.name
        pair = before.benchmarks[name], after.benchmarks[name] if after else None
        entry: dict[str, Any] = _compared(own.suite, *pair) | dict(own.facts)
        entry["limits"] = {**pixels, "max_new_tokens": own.suite.sampling.max_new_tokens}
        entry["samples"] = len(before.benchmarks[name].greedy)
        out.setdefault("benchmarks", {})[name] = entry
    if parts.skipped:
        out["skipped"] = parts.skipped
    return out


def _compared(suite: Suite, before: Evaluation | None, after: Evaluation | None) -> dict[str, Any]:
    out: dict[str, Any] = {}
    if before is not None:
        out["before"] = as_json(before.metrics)
    if before is not None and after is not None:
        out["after"] = as_json(after.metrics)
        out["difference"] = as_json(suite.judge.difference(before, after))
    return out
