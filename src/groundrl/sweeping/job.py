"""A cell that is running: its process, or that of an earlier sweep which went on without it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from groundrl.sweeping.cell_folder import CellFolder, held
from groundrl.sweeping.cells import Cell


@dataclass(slots=True, kw_only=True)
class Job:
    """process: None for a run that a process of an earlier sweep holds; first: share done at its start."""

    number: int
    cell: Cell
    folder: CellFolder
    process: subprocess.Popen[bytes] | None
    started: float = field(default_factory=time.monotonic)
    first: float = 0.0

    def poll(self) -> int | None:
        """The exit code; None while it runs. Of another's run it is 0 when the lock is free."""
        if self.process is not None:
            return self.process.poll()
        return None if held(self.folder.run) else 0

    def signal(self, number: int) -> None:
        """Pass a signal on to the run, which saves and ends."""
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(number)

    def kill(self) -> None:
        """End the run and everything that it started."""
        if self.process is not None and self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)

    @property
    def done(self) -> float:
        """The share of the training steps that is done; 0 for a run without training."""
        return self.folder.step() / self.cell.steps if self.cell.steps else 0.0


def start(words: Sequence[str], folder: CellFolder, root: Path) -> subprocess.Popen[bytes]:
    """Start `python WORDS` in a process group of its own, its output added to the cell's log."""
    environment = {"OMP_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1"} | os.environ
    with folder.log.open("ab") as log:
        return subprocess.Popen(
            [sys.executable, *words],
            cwd=root,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
