"""Runs the cells of a sweep, a few at a time, and freezes each result as soon as it is there."""

from __future__ import annotations

import contextlib
import shlex
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from types import FrameType

from groundrl.errors import DataError
from groundrl.sweeping.cell_folder import CellFolder, FolderState
from groundrl.sweeping.cells import Cell
from groundrl.sweeping.collecting import row_of
from groundrl.sweeping.job import Job, start
from groundrl.sweeping.layout import Layout
from groundrl.sweeping.progress import Progress
from groundrl.sweeping.results import ResultRow, append_result
from groundrl.tracking.numbers import duration, number

LOG_LINES = 5
POLL_S = 0.2
Command = Callable[[Cell, CellFolder], list[str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """A cell that gave no result, why, its log, and the words after `python` that run it again."""

    cell: Cell
    folder: CellFolder
    why: str
    log: str
    words: list[str]

    def lines(self) -> list[str]:
        """For people: cell, log and its end, command."""
        return [
            f"failed: {self.cell.name}: {self.why}; log {self.log}",
            *(f"    | {line}" for line in self.folder.last_lines(LOG_LINES)),
            f"    again: python {shlex.join(self.words)}",
        ]


@dataclass(slots=True, kw_only=True)
class Runner:
    """command gives the words after `python` that start or resume a cell; jobs run at the same time.

    The first SIGINT or SIGTERM is passed to the runs, which save and end, and no other is started; a second
    one kills them. `received` is the signal.
    """

    layout: Layout
    command: Command
    progress: Progress
    claims_commit: str | None
    jobs: int = 1
    failures: list[Failure] = field(default_factory=list[Failure])
    finished: int = 0
    received: int | None = None
    _running: list[Job] = field(default_factory=list[Job])
    _total: int = 0
    _began: float = 0.0

    def run(self, cells: Sequence[Cell]) -> None:
        """Run all cells; one that fails is kept in `failures` and the others go on."""
        waiting = list(enumerate(cells, start=1))
        self._total, self._began = len(waiting), time.monotonic()
        with self._signals():
            while (waiting and self.received is None) or self._running:
                while waiting and self.received is None and len(self._running) < self.jobs:
                    self._start(*waiting.pop(0))
                for job in list(self._running):
                    code = job.poll()
                    if code is not None:
                        self._running.remove(job)
                        self._ended(job, code)
                self.progress.standing(self._standing())
                time.sleep(POLL_S if self._running else 0)

    def _start(self, place: int, cell: Cell) -> None:
        """Begin a cell, go on with it, wait for who runs it, or take its result if it is there."""
        folder = CellFolder(path=self.layout.runs(cell.id, cell.scale) / cell.folder_name)
        state = folder.state()
        if state is FolderState.finished:
            self._ended(Job(number=place, cell=cell, folder=folder, process=None), 0)
            return
        process, how = None, "is still running from an earlier call; waiting for it"
        if state is not FolderState.running:
            if state is FolderState.half_made:
                aside = folder.move_aside()
                self.progress.event(f"an unusable start was moved to {self.layout.shown(aside)}")
            folder.mark(cell, self.claims_commit)
            words = self.command(cell, folder)
            process = start(words, folder, self.layout.root)
            how = f"goes on at step {folder.step()}" if state is FolderState.resumable else "begins"
        job = Job(number=place, cell=cell, folder=folder, process=process)
        job.first = job.done
        self._running.append(job)
        if self.received is not None:  # it came while the process was being started
            job.signal(self.received)
        self.progress.event(f"cell {place} of {self._total} {how}: {cell.name}")

    def _ended(self, job: Job, code: int) -> None:
        cell, folder = job.cell, job.folder
        if folder.state() is FolderState.finished:
            try:
                row = row_of(folder.run, cell, folder.claims_commit())
            except DataError as error:
                self._failed(job, str(error))
                return
            append_result(self.layout.results(cell.id), row)
            self.finished += 1
            self.progress.event(f"cell {job.number} of {self._total} done: {cell.name}{_headline(row)}")
        elif self.received is not None:
            self.progress.event(
                f"cell {job.number} of {self._total} stopped at step {folder.step()}: {cell.name}"
            )
        elif job.process is None:  # the earlier call's run was ended: go on with it
            self._start(job.number, cell)
        else:
            self._failed(job, f"exit code {code}" if code else "it ended without a finished result.json")

    def _failed(self, job: Job, why: str) -> None:
        words = self.command(job.cell, job.folder)
        log = self.layout.shown(job.folder.log)
        self.failures.append(Failure(cell=job.cell, folder=job.folder, why=why, log=log, words=words))
        self.progress.event(f"cell {job.number} of {self._total} FAILED ({why}): {job.cell.name}")

    def _standing(self) -> list[str]:
        """`3/27 done, 1 failed`, each running cell with its step, and the time that is left."""
        if not self._running:
            return []
        failed = f", {len(self.failures)} failed" if self.failures else ""
        parts = [f"{self.finished}/{self._total} done{failed}"]
        shares = [job.done for job in self._running]
        for job in self._running:
            step = f" step {job.folder.step()}/{job.cell.steps}" if job.cell.steps else ""
            parts.append(f"{job.cell.name}{step}")
        worked = self.finished + sum(
            share - job.first for job, share in zip(self._running, shares, strict=True)
        )
        left = self._total - self.finished - len(self.failures) - sum(shares)
        elapsed = time.monotonic() - self._began
        parts.append(f"eta {duration(elapsed * left / worked) if worked > 0 else '-'}")
        return parts

    @contextlib.contextmanager
    def _signals(self) -> Iterator[None]:
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {
            number: signal.signal(number, self._on_signal) for number in (signal.SIGINT, signal.SIGTERM)
        }
        try:
            yield
        finally:
            for kind, handler in before.items():
                signal.signal(kind, handler)

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        first, self.received = self.received is None, self.received or number
        for job in self._running:
            if first:
                job.signal(number)
            else:
                job.kill()


def _headline(row: ResultRow) -> str:
    """`, 80 steps in 1m41s` and the first of the metrics that people look at."""
    time_taken = f", {row.steps} steps in {duration(row.train_seconds)}" if row.steps else ""
    for name in ("greedy/ap", "greedy/iou", "greedy/accuracy"):
        if name in row.measured:
            return f"{time_taken}, {name} {number(row.measured[name]['value'])}"
    return time_taken
