"""Where one run stands, told from its folder alone."""

from __future__ import annotations

import fcntl
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, cast

import yaml

from groundrl.reporting.headlines import split
from groundrl.reporting.outcome import stored_evals
from groundrl.reporting.records import text
from groundrl.tracking.base import EVAL
from groundrl.tracking.comparison import compare
from groundrl.tracking.numbers import bounds, finite
from groundrl.training.run_folder import CONFIG, LOCK, OVERRIDES, RESULT

METRICS = "metrics.jsonl"
STATUSES = ("finished", "interrupted")


@dataclass(frozen=True, slots=True, kw_only=True)
class RunLine:
    """One run. status: finished, interrupted, running (a process holds the lock), died (no result, and no
    process), damaged (`note` says why).

    age: seconds since it ended, or since it last wrote; step of steps: the last one logged
    value: of `metric`, the one its best checkpoint is chosen by, in the last evaluation; difference: to the
    first; clear: its interval excludes 0
    """

    folder: str
    status: str
    age: float | None = None
    step: int | None = None
    steps: int | None = None
    metric: str = ""
    value: float | None = None
    difference: float | None = None
    clear: bool = False
    note: str = ""

    @classmethod
    def damaged(cls, folder: Path, why: str, age: float | None = None) -> RunLine:
        return cls(folder=str(folder), status="damaged", age=age, note=why)


@dataclass(slots=True, kw_only=True)
class _Course:
    """What `metrics.jsonl` says: the last training step, the first evaluation and the last of the later ones,
    and how many lines could not be read."""

    step: int | None = None
    first: Mapping[str, Any] = field(default_factory=dict[str, Any])
    last: Mapping[str, Any] = field(default_factory=dict[str, Any])
    broken: int = 0


class _DamagedError(Exception):
    """A file of the folder that cannot be used."""


def read_line(folder: Path, now: float) -> RunLine:
    """The line of a folder at the time `now` (seconds since the epoch); never raises on what it holds."""
    try:
        return _read(folder, now)
    except _DamagedError as error:
        return RunLine.damaged(folder, str(error), _since(folder, now))
    except OSError as error:
        return RunLine.damaged(folder, f"cannot be read ({error.strerror})")


def _read(folder: Path, now: float) -> RunLine:
    running = lock_is_held(folder / LOCK)
    if not running and not (folder / OVERRIDES).is_file():
        raise _DamagedError(f"there is no {OVERRIDES}")
    if running and not (folder / CONFIG).is_file():  # it has only just been made
        return RunLine(folder=str(folder), status="running", age=_since(folder, now))
    config = _mapping(folder / CONFIG, yaml.safe_load)
    result = _mapping(folder / RESULT, json.loads) if (folder / RESULT).exists() else {}
    status = text(result.get("status"))
    if result and status not in STATUSES:
        raise _DamagedError(f"{RESULT} names no status")
    course = _course(folder / METRICS)
    ended = bool(result) and not running
    evals = stored_evals(result)
    whole = ended and status == "finished"
    before, after = (evals.before, evals.after) if whole else (course.first, course.last)
    wanted = text(_inside(config, "eval", "metric"))
    rows = {row.metric: row for row in compare(before, after or None, evals.difference if whole else None)}
    metric = wanted if wanted in rows else next(iter(split(rows)[0]), "")
    row = rows.get(metric)
    shown = (row.columns.get("after") or row.columns.get("before")) if row is not None else None
    step = course.step
    if ended and (steps := finite(result.get("steps"))) is not None:
        step = int(steps)
    age = _ended(result, now) if ended else None
    if age is None:
        age = _since(folder, now)
    total = finite(_inside(config, "algorithm", "num_steps"))
    return RunLine(
        folder=str(folder),
        status="running" if running else status or "died",
        age=age,
        step=step,
        steps=None if total is None else int(total),
        metric=metric,
        value=bounds(shown)[0],
        difference=bounds(row.difference)[0] if row is not None else None,
        clear=row.clear if row is not None else False,
        note=f"{METRICS}: {course.broken} lines cannot be read" if course.broken else "",
    )


def lock_is_held(path: Path) -> bool:
    """Whether a process of this machine holds the run's lock.

    Asks for a shared lock for a moment, which never waits and lets others ask at the same time. Raises
    OSError.
    """
    try:
        stream = path.open("rb")
    except FileNotFoundError:
        return False
    with stream:
        try:
            fcntl.flock(stream, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


def _course(path: Path) -> _Course:
    """One pass; of the training steps only the last line is parsed. A half-written last line is no damage."""
    course = _Course()
    if not path.is_file():
        return course
    last, unended = b"", False
    with path.open("rb") as file:
        for line in file:
            unended = not line.endswith(b"\n")
            if unended:
                break
            if b'"kind": "eval"' in line:
                _add_eval(course, line)
            elif line.strip():
                last = line
    if last:
        step = finite((_parsed(last) or {}).get("step"))
        course.step = None if step is None else int(step)
        course.broken += step is None
    return course


def _add_eval(course: _Course, line: bytes) -> None:
    record = _parsed(line)
    metrics = (record or {}).get("metrics")
    if record is None or record.get("kind") != EVAL or not isinstance(metrics, dict):
        course.broken += 1
        return
    if course.first:
        course.last = cast("dict[str, Any]", metrics)
    else:
        course.first = cast("dict[str, Any]", metrics)


def _parsed(line: bytes) -> dict[str, Any] | None:
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return cast("dict[str, Any]", record) if isinstance(record, dict) else None


def _mapping(path: Path, parse: Any) -> dict[str, Any]:
    try:
        content = parse(path.read_text("utf-8"))
    except FileNotFoundError:
        raise _DamagedError(f"there is no {path.name}") from None
    except (ValueError, RecursionError, yaml.YAMLError):
        raise _DamagedError(f"{path.name} cannot be read") from None
    if not isinstance(content, dict):
        raise _DamagedError(f"{path.name} holds no mapping")
    return cast("dict[str, Any]", content)


def _inside(config: Mapping[str, Any], group: str, key: str) -> Any:
    values = config.get(group)
    return cast("dict[str, Any]", values).get(key) if isinstance(values, dict) else None


def _ended(result: Mapping[str, Any], now: float) -> float | None:
    """Seconds since the time that the result names."""
    facts = result.get("run")
    stamp = text(cast("dict[str, Any]", facts).get("finished_at")) if isinstance(facts, dict) else ""
    try:
        return max(0.0, now - datetime.strptime(stamp, "%Y-%m-%dT%H:%M:%S%z").timestamp())
    except ValueError:
        return None


def _since(folder: Path, now: float) -> float | None:
    """Seconds since one of the run's files was last written."""
    times: list[float] = []
    for name in (METRICS, RESULT, CONFIG, OVERRIDES, LOCK):
        if (folder / name).exists():
            times.append((folder / name).stat().st_mtime)
    return max(0.0, now - max(times)) if times else None
