"""What a run prints: a header, one line a step, evaluations, and the table of before and after."""

from __future__ import annotations

import logging
import os
import re
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO, Any, Self, TextIO, cast

from rich import box
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from groundrl.tracking.comparison import MARK, NOTE, cells, compare, text_table
from groundrl.tracking.numbers import finite, interval
from groundrl.tracking.sparkline import sparkline
from groundrl.tracking.step_line import Eta, Field, fit, step_fields
from groundrl.tracking.terminal import LogToDisplay, SafeStream

_CONTROL = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_LEVEL_STYLES = {logging.WARNING: "yellow", logging.ERROR: "bold red"}


class Display:
    """Prints a run to `stream` (stdout): with a live bar on a terminal, as plain lines elsewhere.

    NO_COLOR and TERM=dumb of `environ` are respected. Use it as a context manager: inside it log records go
    through the display, and the bar is taken down whatever happens. Nothing it does raises on odd text, a
    narrow terminal, an encoding that lacks characters or a stream that was closed.
    """

    def __init__(
        self,
        *,
        stream: TextIO | None = None,
        environ: Mapping[str, str] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        variables = os.environ if environ is None else environ
        self._out = SafeStream(stream or sys.stdout)
        self._live = self._out.is_terminal and variables.get("TERM") not in ("dumb", "unknown")
        self._console = Console(
            file=cast("IO[str]", self._out),
            force_terminal=self._live,
            no_color=bool(variables.get("NO_COLOR")),
            highlight=False,
            markup=False,
            emoji=False,
        )
        self._clock = clock
        self._log = LogToDisplay(self.message)
        self._eta = Eta()
        self._last_step_at: float | None = None
        self._progress: Progress | None = None
        self._task = TaskID(0)
        self._rewards: list[float] = []

    def __enter__(self) -> Self:
        self._log.install()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
        self._log.remove()

    def close(self) -> None:
        """Take the live bar down; a later step puts it up again."""
        if self._progress:
            self._progress.stop()
            self._progress = None

    def header(self, facts: Mapping[str, object]) -> None:
        """Facts of the run, one a line, in their order: run folder, device, threads, model, data sizes."""
        size = max((len(key) for key in facts), default=0)
        for key, value in facts.items():
            self._print([(key.ljust(size), "dim"), ("  ", ""), (str(value), "")])
        self._print([])

    def stage(self, name: str) -> None:
        """Name what the run is busy with on the live bar; plain output says nothing."""
        if self._progress:
            self._progress.update(self._task, stage=_clean(name))

    def step(self, step: int, total: int, metrics: Mapping[str, float | None]) -> None:
        """One line for training step `step` of `total`."""
        now = self._clock()
        seconds = finite(metrics.get("time/step"))
        if seconds is None and self._last_step_at is not None:
            seconds = now - self._last_step_at
        self._last_step_at = now
        if seconds is not None:
            self._eta.add(seconds)
        fields = step_fields(step, total, metrics, self._eta.remaining(max(0, total - step)))
        self._print(_styled(fit(fields, self._console.width if self._live else None)))
        if self._live:
            self._advance(step, total, finite(metrics.get("reward/total")))

    def evaluation(self, step: int, metrics: Mapping[str, Any], note: str = "") -> None:
        """The held-out metrics at `step` with their intervals; on one line if that fits."""
        head = f"eval step {step}" + (f" ({note})" if note else "")
        parts = [f"{name} {interval(value)}" for name, value in metrics.items()]
        line = "  ".join([head, *parts])
        if not self._live or len(line) <= self._console.width:
            self._print([(head, "bold cyan"), (line[len(head) :], "")])
            return
        self._print([(head, "bold cyan")])
        for part in parts:
            self._print([(f"  {part}", "")])

    def message(self, text: str, level: int = logging.INFO) -> None:
        """A line of text; `level` is one of the logging levels, warnings and errors say what they are."""
        rank = logging.ERROR if level >= logging.ERROR else logging.WARNING if level >= logging.WARNING else 0
        prefix = {logging.WARNING: "warning: ", logging.ERROR: "error: "}.get(rank, "")
        self._print([(prefix, _LEVEL_STYLES.get(rank, "")), (text, "")])

    def finish(self, result: Mapping[str, Any], run_dir: str | Path, next_command: str = "") -> None:
        """The end of a run.

        `result` is the content of `result.json`: its status, steps and eval (before, after, difference and
        references, named metrics to compare with).
        """
        self.close()
        steps = f" after {result['steps']} steps" if result.get("steps") else ""
        self._print([])
        self._print([(str(result.get("status", "ended")), "bold"), (steps, "")])
        evals: Mapping[str, Any] = result.get("eval") or {}
        rows = compare(*(evals.get(key) for key in ("before", "after", "difference", "references")))
        if rows:
            self._print([])
            self._table(*cells(rows))
            if any(row.clear for row in rows):
                self._print([(NOTE, "dim")])
        self._print([])
        self._print([("run folder  ", "dim"), (str(run_dir), "")])
        if next_command:
            self._print([("next        ", "dim"), (next_command, "bold")])

    def _advance(self, step: int, total: int, reward: float | None) -> None:
        progress = self._progress or self._start_bar(total)
        if reward is not None:
            self._rewards.append(reward)
        spark = sparkline(self._rewards, 24, encoding=self._out.encoding)
        progress.update(self._task, completed=step, total=total, spark=spark and f"reward {spark}")

    def _start_bar(self, total: int) -> Progress:
        columns = (
            TextColumn("{task.fields[stage]}", style="cyan", markup=False),
            BarColumn(bar_width=24),
            MofNCompleteColumn(),
            TextColumn("{task.fields[spark]}", style="green", markup=False),
            TimeElapsedColumn(),
        )
        progress = Progress(*columns, console=self._console, refresh_per_second=2, transient=True)
        self._task = progress.add_task("", total=total, stage="train", spark="")
        progress.start()
        self._progress = progress
        return progress

    def _table(self, heading: Sequence[str], body: Sequence[Sequence[str]]) -> None:
        lines = text_table(heading, body, self._console.width if self._live else None)
        stacked = len(lines) != len(body) + 1
        needed = sum(max(len(row[i]) for row in [heading, *body]) + 2 for i in range(len(heading)))
        if not self._live or stacked or needed > self._console.width:
            for line in lines:
                self._print([(line, "")])
            return
        table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, header_style="bold")
        for name in heading:
            table.add_column(name, no_wrap=True)
        for row in body:
            last = Text(row[-1], style="bold" if row[-1].endswith(MARK) else "")
            table.add_row(*(Text(_clean(cell)) for cell in row[:-1]), last)
        self._console.print(table)

    def _print(self, parts: Sequence[tuple[str, str]]) -> None:
        cleaned = [(_clean(text), style) for text, style in parts]
        if self._live:
            self._console.print(Text.assemble(*cleaned), soft_wrap=True)
        else:
            self._out.write("".join(text for text, _ in cleaned).rstrip() + "\n")
            self._out.flush()


def _styled(fields: Sequence[Field]) -> list[tuple[str, str]]:
    parts: list[tuple[str, str]] = []
    for field in fields:
        gap = "  " if parts else ""
        value_style = "bold green" if field.label == "reward" else ""
        parts += [(gap + (field.label and field.label + " "), "dim"), (field.text, value_style)]
        parts.append((field.unit and f" {field.unit}", "dim"))
    return parts


def _clean(text: str) -> str:
    """`text` without the control characters that could move the cursor or recolour the terminal."""
    return _CONTROL.sub("", text)
