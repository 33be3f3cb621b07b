"""Reads a run folder for the report and says what is missing instead of failing."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from groundrl.errors import RunFolderError
from groundrl.reporting.records import GalleryRecord, read_record, text
from groundrl.tracking.base import EVAL, TRAIN
from groundrl.tracking.lines import Record, read_lines
from groundrl.tracking.numbers import finite
from groundrl.tracking.redact import redact


@dataclass(slots=True, kw_only=True)
class RunFiles:
    """The content of a run folder.

    `train` and `evals` are (step, metrics) in order of step; of a step logged twice the last line counts.
    `notes` are sentences about what is missing or could not be read.
    """

    run_dir: Path
    train: list[tuple[int, dict[str, float | None]]] = field(default_factory=list)
    evals: list[tuple[int, dict[str, Any]]] = field(default_factory=list)
    gallery: list[GalleryRecord] = field(default_factory=list)
    result: Mapping[str, Any] = field(default_factory=dict)
    config: str = ""
    notes: list[str] = field(default_factory=list)


def read_run(run_dir: Path) -> RunFiles:
    """Read what is there. Raises RunFolderError only if `run_dir` is no folder."""
    if not run_dir.is_dir():
        raise RunFolderError(f"{run_dir}: no such run folder; give the folder that holds metrics.jsonl")
    run = RunFiles(run_dir=run_dir)
    _read_metrics(run)
    _read_gallery(run)
    _read_result(run)
    _read_config(run)
    return run


def _read_metrics(run: RunFiles) -> None:
    train: dict[int, dict[str, float | None]] = {}
    evals: dict[int, dict[str, Any]] = {}
    for record in _lines(run, "metrics.jsonl", "there are no curves"):
        step, metrics = finite(record.get("step")), record.get("metrics")
        if step is None or not isinstance(metrics, dict):
            continue
        if record.get("kind") == TRAIN:
            train[int(step)] = {text(name): finite(value) for name, value in metrics.items()}
        elif record.get("kind") == EVAL:
            evals[int(step)] = {text(name): value for name, value in metrics.items()}
    run.train, run.evals = sorted(train.items()), sorted(evals.items())


def _read_gallery(run: RunFiles) -> None:
    records = [read_record(raw) for raw in _lines(run, "gallery.jsonl", "there are no images to look at")]
    run.gallery = [record for record in records if record is not None]


def _read_result(run: RunFiles) -> None:
    path = run.run_dir / "result.json"
    if not path.exists():
        run.notes.append("result.json is missing: the run has not ended, or it was killed.")
        return
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        content = None
    if isinstance(content, dict):
        run.result = redact(content)
    else:
        run.notes.append("result.json could not be read.")


def _read_config(run: RunFiles) -> None:
    path = run.run_dir / "config.yaml"
    if not path.exists():
        run.notes.append("config.yaml is missing: the settings of the run are not shown.")
        return
    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, yaml.YAMLError, RecursionError):
        run.notes.append("config.yaml could not be read.")
        return
    run.config = text(yaml.safe_dump(redact(content), sort_keys=False, allow_unicode=True))


def _lines(run: RunFiles, name: str, consequence: str) -> list[Record]:
    path = run.run_dir / name
    if not path.exists():
        run.notes.append(f"{name} is missing: {consequence}.")
        return []
    try:
        read = read_lines(path)
    except OSError as error:
        run.notes.append(f"{name} could not be read ({error.strerror}): {consequence}.")
        return []
    if read.unreadable:
        lines = "1 line" if read.unreadable == 1 else f"{read.unreadable} lines"
        run.notes.append(f"{name}: left out {lines} that could not be read.")
    if not read.records:
        run.notes.append(f"{name} has no readable lines: {consequence}.")
    return read.records
