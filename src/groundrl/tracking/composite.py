"""The run's own record and, beside it, one outside service."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from groundrl.tracking.base import Metrics, Picture, Tracker
from groundrl.tracking.jsonl import JsonlTracker
from groundrl.tracking.pictures import PictureBudget


class RunTracker:
    """Logs to `metrics.jsonl` first, then to the other trackers, by name; pictures as far as `budget` goes.

    `state()` is to be taken after the step it belongs to was logged: its "step" is where a resumed record
    is cut.
    """

    def __init__(self, record: JsonlTracker, others: dict[str, Tracker], budget: PictureBudget) -> None:
        self._record = record
        self._others = others
        self._budget = budget

    def log(self, step: int, kind: str, metrics: Metrics) -> None:
        self._record.log(step, kind, metrics)
        for tracker in self._others.values():
            tracker.log(step, kind, metrics)

    def show(self, pictures: Sequence[Picture]) -> None:
        self._send(self._budget.admit(pictures))

    def state(self) -> dict[str, Any]:
        own = self._record.state()
        if not self._others:
            return own
        others = {name: tracker.state() for name, tracker in self._others.items()}
        return own | {"pictures": self._budget.sent} | others

    def finish(self, status: str, summary: Metrics) -> None:
        """Close all records. Pictures that were held back go out with a run that came to its end."""
        if status == "finished":
            self._send(self._budget.last())
        self._record.finish(status, summary)
        for tracker in self._others.values():
            tracker.finish(status, summary)

    def _send(self, pictures: Sequence[Picture]) -> None:
        for tracker in self._others.values() if pictures else ():
            tracker.show(pictures)
