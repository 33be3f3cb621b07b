"""The objects a run is wired from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from groundrl.evaluation.suite import Suite
from groundrl.learner.checkpoint import Checkpoints
from groundrl.learner.learner import Learner
from groundrl.models.load import Policy
from groundrl.rollout.collect import Collector
from groundrl.run_config import RunConfig
from groundrl.tracking.base import Tracker
from groundrl.tracking.display import Display
from groundrl.tracking.gallery import Gallery
from groundrl.tracking.lines import JsonLines
from groundrl.training.clock import StageClock
from groundrl.training.interrupt import Interrupt
from groundrl.training.measure import BenchmarkSuite
from groundrl.training.method import Method
from groundrl.training.run_folder import RunFolder
from groundrl.training.state import RunState
from groundrl.world import World


@dataclass(slots=True, kw_only=True)
class Parts:
    """Everything the loop uses. `method` and `learner` are None when nothing is trained; `skipped` says why
    benchmarks are left out, by name."""

    config: RunConfig
    folder: RunFolder
    policy: Policy
    collector: Collector
    suite: Suite
    benchmarks: list[BenchmarkSuite]
    skipped: dict[str, str]
    method: Method | None
    learner: Learner | None
    checkpoints: Checkpoints
    tracker: Tracker
    gallery: Gallery
    rollouts: JsonLines
    display: Display
    interrupt: Interrupt
    clock: StageClock
    facts: dict[str, Any]
    state: RunState
    world: World

    def stopping(self) -> bool:
        """Whether a signal came, to this process or to another: all of them stop at the same step."""
        received = [number for number in self.world.gather(self.interrupt.received) if number is not None]
        if received and self.interrupt.received is None:
            self.interrupt.received = received[0]
        return bool(received)
