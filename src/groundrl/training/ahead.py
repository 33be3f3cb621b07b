"""Batches drawn ahead of the one that is learned from (`rollout.max_lag`).

With max_lag = n, up to n later batches are drawn before the present one is learned from, so batch t is drawn
with the weights of update t - n: what an engine that draws while the learner learns would give. Engines so
far draw inside `generate` and the hf engine shares its weights with the learner, so nothing overlaps in time
here: only the order changes, and with it what the rows were drawn from. What the ratio of such rows is taken
to stands in learner/staleness.py.

A checkpoint holds the batches in the queue as what the engine drew. On resuming, the same samples are taken
and graded again with those completions in place of the engine's, so a run goes on to the bit (as far as its
reward gives the same answer twice).
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Any

from groundrl.rollout.engines.base import Completion
from groundrl.rollout.engines.recorded import Recorder, Replay, from_json, to_json
from groundrl.training.clock import StageClock
from groundrl.training.grpo import GRPO
from groundrl.training.method import Gathered


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawn:
    """A batch that waits. step: whose batch it is; at: step in which it was drawn; before: state of the
    method before that; completions: what this process' engine drew, by seed."""

    step: int
    at: int
    gathered: Gathered
    before: dict[str, Any]
    completions: dict[int, Completion]


class Ahead:
    """GRPO with a queue of up to `max_lag` batches."""

    def __init__(self, inner: GRPO, *, max_lag: int, num_steps: int) -> None:
        self.inner = inner
        self.sampler = inner.sampler
        self.max_lag = max_lag
        self.num_steps = num_steps
        self.queue: deque[Drawn] = deque()

    def gather(self, step: int, clock: StageClock) -> Gathered:
        """Batch `step`, its rows marked with their lag; draws until `max_lag` later ones wait."""
        last = min(step + self.max_lag, self.num_steps - 1)
        for number in range(step + len(self.queue), last + 1):
            recorder = Recorder(self.inner.collector.engine)
            self.queue.append(self._draw(number, step, clock, recorder))
        drawn = self.queue.popleft()
        assert drawn.step == step
        lag = step - drawn.at
        for row in drawn.gathered.experience:
            row.lag = lag
        drawn.gathered.metrics["learner/lag_mean"] = float(lag)
        return drawn.gathered

    def _draw(self, number: int, at: int, clock: StageClock, engine: Recorder) -> Drawn:
        before, collector = self.inner.state(), self.inner.collector
        own, collector.engine = collector.engine, engine
        try:
            gathered = self.inner.gather(number, clock)
        finally:
            collector.engine = own
        return Drawn(step=number, at=at, gathered=gathered, before=before, completions=engine.drawn)

    def state(self) -> dict[str, Any]:
        """State before the first batch that waits, and the batches. Asked for by all processes."""
        queue: list[dict[str, Any]] = []
        for drawn in self.queue:
            everyone: dict[str, Any] = {}
            for part in self.inner.world.gather(to_json(drawn.completions)):
                everyone |= part
            queue.append({"step": drawn.step, "at": drawn.at, "completions": everyone})
        state = self.queue[0].before if self.queue else self.inner.state()
        return {**state, "ahead": queue}

    def load(self, state: dict[str, Any]) -> None:
        self.inner.load(state)
        self.queue.clear()
        for entry in state["ahead"]:
            replay = Replay(self.inner.collector.engine, from_json(entry["completions"]))
            self.queue.append(self._draw(entry["step"], entry["at"], StageClock(), replay))
