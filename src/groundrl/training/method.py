"""What a training method gives the loop: experience to learn from, and what it measured making it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from groundrl.data.sampler import Sampler
from groundrl.learner.experience import Experience
from groundrl.rewards.graded import Graded
from groundrl.training.clock import StageClock


@dataclass(slots=True, kw_only=True)
class Gathered:
    """One step's experience, its metrics, and the rollouts to store (none for supervised methods).

    scored: of all processes; own: of this one, in the order that `Experience.rollout` numbers
    """

    experience: list[Experience]
    metrics: dict[str, float]
    scored: Sequence[Graded] = field(default_factory=list[Graded])
    tokens: int = 0
    own: Sequence[Graded] = field(default_factory=list[Graded])


class Method(Protocol):
    """Way to experience. One that draws nothing alongside the learner inherits `settle` and `close`."""

    sampler: Sampler

    def gather(self, step: int, clock: StageClock) -> Gathered: ...

    def settle(self, clock: StageClock) -> dict[str, float]:
        """Wait for what is drawn while the learner steps. All processes call it after the learner's step and
        before anything else: weights are pushed and checkpoints written only behind it. Returns metrics."""
        return {}

    def close(self) -> None:
        """Give up what is still being drawn."""
        return None

    def state(self) -> dict[str, Any]: ...

    def load(self, state: dict[str, Any]) -> None: ...
