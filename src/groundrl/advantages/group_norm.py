"""GRPO's group-normalised advantage (VLM-R1 paper, section 3; DeepSeekMath, eq. 3).

    A_i = (r_i - mean(r)) / (std(r) + eps),   std with N - 1

A group without spread gives exactly 0, as does a rollout whose reward is missing; missing rewards take no
part in mean and std (advantages/spread.py).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from groundrl.advantages.base import AdvantageConfig, Assigned
from groundrl.advantages.spread import assign_by_group
from groundrl.config.registry import register
from groundrl.errors import ConfigError


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
        return assign_by_group(rewards, groups, lambda r: (r - r.mean()) / (r.std(ddof=1) + self.eps))
