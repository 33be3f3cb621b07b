"""`metrics.jsonl`: the run's own record, always written."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from groundrl.errors import RunFolderError
from groundrl.tracking.base import Metrics, Picture
from groundrl.tracking.lines import JsonLines

FILE_NAME = "metrics.jsonl"


class JsonlTracker:
    """Appends `{"step", "kind", "metrics"}` lines to `metrics.jsonl`.

    `after` is the last step to keep of an earlier part of the same run; None starts a new record and
    refuses a folder that has one already. `final` is the run's last step (`JsonLines.truncate_after`).
    """

    def __init__(self, run_dir: Path, *, after: int | None = None, final: int | None = None) -> None:
        path = run_dir / FILE_NAME
        if after is None and path.exists() and path.stat().st_size:
            raise RunFolderError(f"{path}: already holds a run; resume it or choose a new folder")
        self._lines = JsonLines(path)
        self._step = -1
        if after is not None:
            self._lines.truncate_after(after, final=final)
            self._step = after

    def log(self, step: int, kind: str, metrics: Metrics) -> None:
        self._lines.append({"step": step, "kind": kind, "metrics": metrics})
        self._step = max(self._step, step)

    def show(self, pictures: Sequence[Picture]) -> None:
        """Nothing: the gallery they come from is a file of the run folder already."""

    def state(self) -> dict[str, Any]:
        """`step` is the last step logged, -1 before the first."""
        return {"step": self._step}

    def finish(self, status: str, summary: Metrics) -> None:
        """Close the file; `result.json` holds the summary."""
        self._lines.close()
