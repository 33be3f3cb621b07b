"""The folder of a cell: how far the run in it is, and what it was started as.

A cell's run folder is the cell's folder itself, or, when Hydra's launcher named it, one below.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

import yaml

from groundrl.errors import DataError
from groundrl.sweeping.cells import Cell
from groundrl.sweeping.key import config_key
from groundrl.tracking.lines import write_json
from groundrl.training.run_folder import CONFIG, LOCK, OVERRIDES, RESULT

CELL = "cell.json"
LOG = "cell.log"
_TAIL = 1 << 18


class FolderState(StrEnum):
    """absent: nothing there that keeps a run from beginning. half_made: no run that could go on. running: a
    process holds the run. resumable: goes on from its last checkpoint, or from the answers of the evaluation
    before it. finished: has its result."""

    absent = "absent"
    half_made = "half_made"
    running = "running"
    resumable = "resumable"
    finished = "finished"


@dataclass(frozen=True, slots=True, kw_only=True)
class CellFolder:
    """`path`: the cell's folder, which need not exist."""

    path: Path

    @property
    def run(self) -> Path:
        """The run folder: the newest one that has settings; the cell's folder where there is none."""
        found = [self.path / CONFIG] if (self.path / CONFIG).is_file() else []
        found += [file for file in self.path.glob(f"*/*/{CONFIG}") if not _beside(file)]
        return max(found, key=lambda file: file.stat().st_mtime).parent if found else self.path

    @property
    def log(self) -> Path:
        return self.path / LOG

    def state(self) -> FolderState:
        if held(self.run):
            return FolderState.running
        if result(self.run).get("status") == "finished":
            return FolderState.finished
        whole = all((self.run / name).is_file() for name in (CONFIG, OVERRIDES))
        if whole:
            return FolderState.resumable
        harmless = {CELL, LOG, LOCK, OVERRIDES}
        rest = self.path.exists() and any(file.name not in harmless for file in self.path.iterdir())
        return FolderState.half_made if rest else FolderState.absent

    def move_aside(self) -> Path:
        """Rename the folder, so that a new one can be made; nothing is deleted."""
        number = 1
        while (aside := self.path.with_name(f"{self.path.name}.aside-{number}")).exists():
            number += 1
        return self.path.rename(aside)

    def mark(self, cell: Cell, claims_commit: str | None) -> None:
        """Write down what is started here, unless an earlier call has."""
        self.path.mkdir(parents=True, exist_ok=True)
        if not (self.path / CELL).exists():
            known = {"id": cell.id, "key": cell.key, "axes": cell.axes, "seed": cell.seed}
            write_json(self.path / CELL, {**known, "claims_commit": claims_commit})

    def claims_commit(self) -> str | None:
        """The commit of the claims when the run was started."""
        commit = _read(self.path / CELL).get("claims_commit")
        return commit if isinstance(commit, str) else None

    def step(self) -> int:
        """Training steps that the run's record has."""
        with contextlib.suppress(OSError), (self.run / "metrics.jsonl").open("rb") as stream:
            stream.seek(max(0, stream.seek(0, 2) - _TAIL))
            for line in reversed(stream.read().splitlines()):
                with contextlib.suppress(ValueError, KeyError, TypeError):
                    return int(json.loads(line)["step"])
        return 0

    def last_lines(self, count: int) -> list[str]:
        """The last lines of the log that are not empty."""
        try:
            text = self.log.read_text("utf-8", "replace")
        except OSError:
            return []
        return [line for line in text.splitlines() if line.strip()][-count:]


def result(run: Path) -> dict[str, Any]:
    """`result.json` of a run folder; empty when there is none that can be read."""
    return _read(run / RESULT)


def saved_key(run: Path) -> str:
    """The key of the settings that a run folder holds. Raises DataError."""
    return config_key(saved_config(run))


def saved_config(run: Path) -> dict[str, Any]:
    """The resolved settings in a run folder. Raises DataError when there are none."""
    file = run / CONFIG
    try:
        content: Any = yaml.safe_load(file.read_text("utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        problem = f"cannot be read ({' '.join(str(error).split())})"
        raise DataError(file, problem, todo="give a run folder") from None
    if not isinstance(content, dict):
        raise DataError(file, "holds no settings", todo="give a run folder")
    return content


def held(run: Path) -> bool:
    """Whether a process holds the lock of a run folder now."""
    try:
        with (run / LOCK).open("rb+") as stream:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False


def _read(file: Path) -> dict[str, Any]:
    try:
        content: Any = json.loads(file.read_text("utf-8"))
    except (OSError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}


def _beside(file: Path) -> bool:
    """A config that a checkpoint or a model keeps is not a run's."""
    return any(part in ("checkpoints", "best", ".submitit") for part in file.parts[-3:-1])
