"""The runs under a folder, newest first.

python -m groundrl.reporting.runs [ROOT] [--json]
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from groundrl.config.entry import guard
from groundrl.errors import RunFolderError
from groundrl.reporting.run_state import RunLine, read_line
from groundrl.tracking.comparison import MARK, NOTE, text_table
from groundrl.tracking.lines import to_json
from groundrl.tracking.numbers import UNKNOWN, duration, number
from groundrl.training.run_folder import CONFIG, LOCK, OVERRIDES, RESULT

MARKS = (CONFIG, OVERRIDES, RESULT, LOCK, "metrics.jsonl")
"""A folder that holds one of these is, or was, a run; nothing below it is looked at."""


def find_runs(root: Path) -> tuple[list[Path], list[RunLine]]:
    """Folders that hold a run, and a line for each folder that cannot be looked into.

    Links are looked at but not followed further. Raises RunFolderError when `root` is no folder.
    """
    if not root.is_dir():
        raise RunFolderError(f"{root}: no such folder; give the one that runs are written to (paths.root)")
    found: list[Path] = []
    closed: list[RunLine] = []
    waiting = [root]
    while waiting:
        folder = waiting.pop()
        try:
            entries = list(folder.iterdir())
            if any(entry.name in MARKS for entry in entries):
                found.append(folder)
            elif not folder.is_symlink() or folder == root:
                waiting += [entry for entry in entries if entry.is_dir()]
        except OSError as error:
            closed.append(RunLine.damaged(folder, f"cannot be read ({error.strerror})"))
    return found, closed


def list_runs(root: Path, now: float | None = None) -> list[RunLine]:
    """A line a run, the one that changed last first; `now` in seconds since the epoch. Raises
    RunFolderError."""
    found, closed = find_runs(root)
    moment = time.time() if now is None else now
    read = [read_line(folder, moment) for folder in found] + closed
    return sorted(read, key=lambda line: (line.age is None, line.age or 0.0, line.folder))


def table(runs: Sequence[RunLine]) -> list[str]:
    """The lines as text: one table, and below it why folders are damaged."""
    heading = ["status", "age", "step", "metric", "value", "difference", "folder"]
    body = [
        [
            line.status,
            UNKNOWN if line.age is None else duration(line.age),
            f"{UNKNOWN if line.step is None else line.step}/{UNKNOWN if line.steps is None else line.steps}",
            line.metric or UNKNOWN,
            number(line.value),
            _signed(line),
            line.folder,
        ]
        for line in runs
    ]
    out = text_table(heading, body)
    if any(line.clear for line in runs):
        out.append(NOTE)
    return out + [f"{line.status}: {line.folder}: {line.note}" for line in runs if line.note]


def _signed(line: RunLine) -> str:
    if line.difference is None:
        return UNKNOWN
    sign = "+" if line.difference > 0 else ""
    return f"{sign}{number(line.difference)}" + (f" {MARK}" if line.clear else "")


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table, or JSON, and return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m groundrl.reporting.runs", description="List runs.")
    parser.add_argument("root", type=Path, nargs="?", default=Path("outputs"), help="outputs by default")
    parser.add_argument("--json", action="store_true", help="a list of objects instead of a table")
    options = parser.parse_args(arguments)

    def run() -> None:
        runs = list_runs(options.root)
        if options.json:
            print(to_json([asdict(line) for line in runs], indent=2))
        else:
            print("\n".join(table(runs) if runs else [f"no runs under {options.root}"]))

    return guard(run)


if __name__ == "__main__":
    raise SystemExit(main())
