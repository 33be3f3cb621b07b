"""The advantage interface: from the rewards of a batch to one number per rollout."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from groundrl.errors import ConfigError


@dataclass(frozen=True, slots=True, kw_only=True)
class Assigned:
    """advantages float64 [B], 0 where the reward is missing; zero_spread: share of the groups with at
    least two valid rewards whose rewards are all equal (no signal)."""

    advantages: NDArray[np.float64]
    zero_spread: float


class Advantage(Protocol):
    def assign(self, rewards: NDArray[np.float64], groups: NDArray[np.int64]) -> Assigned:
        """rewards [B], nan where missing; groups [B], the prompt each belongs to."""
        ...


@dataclass(kw_only=True, slots=True)
class AdvantageConfig:
    """Base of the advantage options."""

    def build(self) -> Advantage:
        raise ConfigError("", "this advantage has no build()", todo="register a Config that overrides build")
