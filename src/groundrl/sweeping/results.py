"""Frozen results: `experiments/<id>/results.jsonl`, one finished run a line."""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from groundrl.errors import DataError
from groundrl.tracking.base import Interval
from groundrl.tracking.lines import json_safe


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultRow:
    """A finished run as tables, plots and claims need it.

    key            of the resolved settings, seed included (`config_key`)
    axes           the sweep's swept settings without the seed, as written at paper scale
    twins          group to (option at paper scale, option that ran)
    words          the settings that ran
    claims_commit  last commit of the claims file when the run began; None when there was none or it differed
    data           fingerprints: `train`, `heldout` and each benchmark's
    start          fingerprint of the weights that the run began with
    samples        evaluated samples: `heldout` and each benchmark's
    before, after  metrics, flat: `greedy/ap`, `BENCHMARK/ap`; `after` is empty when nothing was trained
    curves         metric to (step, value), at most 120 points each
    """

    key: str
    id: str
    scale: str
    axes: dict[str, str]
    twins: dict[str, tuple[str, str]]
    seed: int
    words: tuple[str, ...]
    commit: str
    claims_commit: str | None
    finished_at: str
    versions: dict[str, str]
    machine: dict[str, str]
    data: dict[str, str]
    start: str | None
    steps: int
    train_seconds: float
    samples: dict[str, int]
    before: dict[str, Interval]
    after: dict[str, Interval]
    curves: dict[str, list[tuple[int, float]]]

    @property
    def measured(self) -> dict[str, Interval]:
        """The cell's values: after training, or of the start when nothing was trained."""
        return self.after or self.before

    @property
    def place(self) -> tuple[str, tuple[tuple[str, str], ...]]:
        """What a row is the only one of in its file: key and axes."""
        return self.key, tuple(sorted(self.axes.items()))


_KINDS: dict[str, Any] = {
    "seed": int,
    "steps": int,
    "train_seconds": (int, float),
    "words": list,
    "claims_commit": (str, type(None)),
    "start": (str, type(None)),
} | dict.fromkeys(
    ("axes", "twins", "versions", "machine", "data", "samples", "before", "after", "curves"), dict
)


def read_results(file: Path) -> list[ResultRow]:
    """The rows of a results file in their order; none when there is no file.

    A last line that was cut off by a crash is left out. Raises DataError on any other line that is no row.
    """
    if not file.is_file():
        return []
    lines = file.read_bytes().split(b"\n")
    return [_row(file, number, line) for number, line in enumerate(lines[:-1], start=1) if line.strip()]


def append_result(file: Path, row: ResultRow) -> bool:
    """Add a row for good, unless its place is taken; says whether it was added.

    One writer at a time (flock); the line is on the disk when this returns. Raises DataError as
    `read_results` does.
    """
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("a+b") as stream:
        fcntl.flock(stream, fcntl.LOCK_EX)
        stream.seek(0)
        complete = stream.read().rpartition(b"\n")
        stream.truncate(len(complete[0]) + len(complete[1]))
        if any(known.place == row.place for known in read_results(file)):
            return False
        stream.write(
            json.dumps(json_safe(asdict(row)), separators=(",", ":"), allow_nan=False).encode() + b"\n"
        )
        stream.flush()
        os.fsync(stream.fileno())
    return True


def _row(file: Path, number: int, line: bytes) -> ResultRow:
    try:
        content: Any = json.loads(line)
    except ValueError:
        raise DataError(file, "is no JSON", row=number, todo="restore the line from git") from None
    names = [field.name for field in fields(ResultRow)]
    if not isinstance(content, Mapping) or set(content) != set(names):
        differing = sorted(set(content) ^ set(names)) if isinstance(content, Mapping) else ["all"]
        problem = f"is no result: keys missing or unknown: {', '.join(map(str, differing))}"
        raise DataError(file, problem, row=number, todo="restore the line from git")
    for name in names:
        if isinstance(content[name], bool) or not isinstance(content[name], _KINDS.get(name, str)):
            raise DataError(file, f"{name} is of the wrong kind: {content[name]!r}", row=number)
    values = dict(content)
    values["words"] = tuple(values["words"])
    values["twins"] = {group: (old, new) for group, (old, new) in values["twins"].items()}
    values["curves"] = {
        name: [(int(step), float(value)) for step, value in line] for name, line in values["curves"].items()
    }
    return ResultRow(**values)
