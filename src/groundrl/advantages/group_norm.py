"""GRPO's group-normalised advantage (VLM-R1 paper, section 3; DeepSeekMath, eq. 3).

    A_i = (r_i - mean(r)) / (std(r) + eps),   std with N - 1

A group without spread gives exactly 0, as does a rollout whose reward is missing; missing rewards take no
part in mean and std. Rewards whose spread is float64 rounding (1e-12 of the largest magnitude, or of 1) count
as equal: 0.1 + 0.2 and 0.3 are no signal, and Adam would blow their residue up.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from groundrl.advantages.base import AdvantageConfig, Assigned
from groundrl.config.registry import register
from groundrl.errors import ConfigError

ROUNDING = 1e-12
"""Relative spread of rewards below which a group has none."""


@register("algorithm/advantage", "group_norm")
@dataclass(kw_only=True, slots=True)
class GroupNormConfig(AdvantageConfig):
    """eps is added to the standard deviation (published: 1e-4)."""

    eps: float = 1e-4

    def __post_init__(self) -> None:
        if not self.eps > 0:
            raise ConfigError("eps", "must be > 0", got=self.eps, todo="use 1e-4")

    def build(self) -> GroupNorm:
        return GroupNorm(self.eps)


class GroupNorm:
    def __init__(self, eps: float) -> None:
        self.eps = eps

    def assign(self, rewards: NDArray[np.float64], groups: NDArray[np.int64]) -> Assigned:
        advantages = np.zeros(len(rewards))
        measured = flat = 0
        for group in np.unique(groups):
            rows = np.flatnonzero((groups == group) & np.isfinite(rewards))
            if len(rows) < 2:
                continue
            measured += 1
            values = rewards[rows]
            if values.max() - values.min() <= ROUNDING * max(1.0, np.abs(values).max()):
                flat += 1
                continue
            advantages[rows] = (values - values.mean()) / (values.std(ddof=1) + self.eps)
        return Assigned(advantages=advantages, zero_spread=flat / measured if measured else 1.0)
