"""Where the time of a step goes: every stage measured itself, none a remainder."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator


class StageClock:
    """Wall seconds by stage of the present step. Stages do not nest."""

    def __init__(self) -> None:
        self.stages: dict[str, float] = {}
        self._started = time.perf_counter()

    def begin(self) -> None:
        """A new step starts now."""
        self.stages = {}
        self._started = time.perf_counter()

    @contextlib.contextmanager
    def stage(self, name: str) -> Iterator[None]:
        start = time.perf_counter()
        try:
            yield
        finally:
            self.stages[name] = self.stages.get(name, 0.0) + time.perf_counter() - start

    def metrics(self) -> dict[str, float]:
        """`time/<stage>` and `time/step`, the wall time since `begin`, in seconds."""
        out = {f"time/{name}": seconds for name, seconds in self.stages.items()}
        out["time/step"] = time.perf_counter() - self._started
        return out
