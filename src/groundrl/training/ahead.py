"""Batches drawn ahead of the one that is learned from (`rollout.max_lag`).

With max_lag = n, up to n later batches are drawn before the present one is learned from, so batch t is drawn
with the weights of update t - n. What the ratio of such rows is taken to stands in learner/staleness.py.

An engine that draws in other processes (engines/base.py, `Concurrent`) draws the newest batch in a thread
while the learner steps; the push of the new weights waits for it, so what is drawn from what is the same.
Prompts and rollouts are made there; grading and everything that processes tell each other stays in the main
thread. Engines of this process draw before the learner steps: the hf engine shares its weights with it, and
the one of vLLM is not to be called from two threads.

A checkpoint holds the batches in the queue as what the engine drew, none of them half drawn. On resuming, the
same samples are taken and graded again with those completions in place of the engine's, so a run goes on to
the bit (as far as its reward gives the same answer twice).
"""

from __future__ import annotations

import time
from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from typing import Any

from groundrl.rollout.engines.base import Completion, Concurrent
from groundrl.rollout.engines.recorded import Recorder, Replay, from_json, to_json
from groundrl.training.clock import StageClock
from groundrl.training.grpo import GRPO, Collected
from groundrl.training.method import Gathered

POLL_S = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawn:
    """A batch that waits. step: whose batch it is; at: step in which it was drawn; before: state of the
    method before that; completions: what this process' engine drew, by seed."""

    step: int
    at: int
    gathered: Gathered
    before: dict[str, Any]
    completions: dict[int, Completion]


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawing:
    """A batch that is being drawn; `clock` is of its thread."""

    step: int
    at: int
    before: dict[str, Any]
    engine: Recorder
    clock: StageClock
    collected: Future[Collected]


class Ahead:
    """GRPO with a queue of up to `max_lag` batches."""

    def __init__(self, inner: GRPO, *, max_lag: int, num_steps: int) -> None:
        self.inner = inner
        self.sampler = inner.sampler
        self.max_lag = max_lag
        self.num_steps = num_steps
        self.queue: deque[Drawn] = deque()
        self.drawing: Drawing | None = None
        engine = inner.collector.engine
        self.beside = engine if isinstance(engine, Concurrent) and engine.concurrent else None
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="groundrl-ahead") if self.beside else None

    def gather(self, step: int, clock: StageClock) -> Gathered:
        """Batch `step`, its rows marked with their lag; draws until `max_lag` later ones wait or are on
        their way."""
        assert self.drawing is None
        last = min(step + self.max_lag, self.num_steps - 1)
        for number in range(step + len(self.queue), last + 1):
            engine = Recorder(self.inner.collector.engine)
            if self._thread is not None and step < number == last:
                self._begin(number, step, engine, self._thread)
            else:
                self.queue.append(self._draw(number, step, clock, engine))
        drawn = self.queue.popleft()
        assert drawn.step == step
        lag = step - drawn.at
        for row in drawn.gathered.experience:
            row.lag = lag
        drawn.gathered.metrics["learner/lag_mean"] = float(lag)
        return drawn.gathered

    def _draw(self, number: int, at: int, clock: StageClock, engine: Recorder) -> Drawn:
        before, collector = self.inner.state(), self.inner.collector.drawing_with(engine)
        gathered = self.inner.finish(self.inner.collect(number, clock, collector), clock)
        return Drawn(step=number, at=at, gathered=gathered, before=before, completions=engine.drawn)

    def _begin(self, number: int, at: int, engine: Recorder, thread: ThreadPoolExecutor) -> None:
        before, clock = self.inner.state(), StageClock()
        collector = self.inner.collector.drawing_with(engine)
        collected = thread.submit(self.inner.collect, number, clock, collector)
        self.drawing = Drawing(
            step=number, at=at, before=before, engine=engine, clock=clock, collected=collected
        )

    def settle(self, clock: StageClock) -> dict[str, float]:
        """Put the batch that is being drawn into the queue; what its thread raised is raised here.

        `time/rollout` is what was waited for, `perf/rollout_hidden_s` what the learner's step hid.
        """
        drawing, self.drawing = self.drawing, None
        if drawing is None:
            return {}
        began = time.perf_counter()
        with clock.stage("rollout"):
            wait([drawing.collected])
        hidden = sum(drawing.clock.stages.values()) - (time.perf_counter() - began)
        gathered = self.inner.finish(drawing.collected.result(), clock)
        self.queue.append(
            Drawn(
                step=drawing.step,
                at=drawing.at,
                gathered=gathered,
                before=drawing.before,
                completions=drawing.engine.drawn,
            )
        )
        return {"perf/rollout_hidden_s": max(0.0, hidden)}

    def close(self) -> None:
        if self._thread is None or self.beside is None:
            return
        while self.drawing is not None and not self.drawing.collected.done():
            self.beside.abandon()
            wait([self.drawing.collected], timeout=POLL_S)
        self.drawing = None
        self._thread.shutdown()

    def state(self) -> dict[str, Any]:
        """State before the first batch that waits, and the batches. Asked for by all processes."""
        assert self.drawing is None, "settle() comes first"
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
