"""The run's own record and, beside it, one outside service."""

from __future__ import annotations

from typing import Any

from groundrl.tracking.base import Metrics, Tracker
from groundrl.tracking.jsonl import JsonlTracker


class RunTracker:
    """Logs to `metrics.jsonl` first, then to the other trackers, by name.

    `state()` is to be taken after the step it belongs to was logged: its "step" is where a resumed record
    is cut.
    """

    def __init__(self, record: JsonlTracker, others: dict[str, Tracker]) -> None:
        self._record = record
        self._others = others

    def log(self, step: int, kind: str, metrics: Metrics) -> None:
        self._record.log(step, kind, metrics)
        for tracker in self._others.values():
            tracker.log(step, kind, metrics)

    def state(self) -> dict[str, Any]:
        return self._record.state() | {name: tracker.state() for name, tracker in self._others.items()}

    def finish(self, status: str) -> None:
        self._record.finish(status)
        for tracker in self._others.values():
            tracker.finish(status)
