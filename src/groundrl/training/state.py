"""Where a run stands: what a checkpoint stores beside weights, and what the end needs from the beginning."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass(slots=True, kw_only=True)
class Best:
    """The best value of the chosen metric so far, on the first `eval.every_samples` held-out samples."""

    step: int = -1
    value: float = float("-inf")


@dataclass(slots=True, kw_only=True)
class RunState:
    """step: training steps done; seconds: time spent training in all parts of the run."""

    step: int = 0
    seconds: float = 0.0
    best: Best = field(default_factory=Best)

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> RunState:
        return cls(step=values["step"], seconds=values["seconds"], best=Best(**values["best"]))
