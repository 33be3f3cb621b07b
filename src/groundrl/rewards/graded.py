"""A rollout beside what was made of it."""

from __future__ import annotations

from dataclasses import dataclass

from groundrl.parsing.answer import Answer
from groundrl.types import RewardBreakdown, Rollout, Sample


@dataclass(slots=True, kw_only=True)
class Graded:
    """The answer is parsed once; reward, metrics and galleries read the same object."""

    sample: Sample
    rollout: Rollout
    answer: Answer
    breakdown: RewardBreakdown
