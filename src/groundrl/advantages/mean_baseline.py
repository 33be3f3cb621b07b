"""The advantage of Dr. GRPO (Liu et al. 2025, "Understanding R1-Zero-Like Training", section 3.2).

    A_i = r_i - mean(r)

No division by the group's deviation, which would weigh very easy and very hard prompts up.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from groundrl.advantages.base import AdvantageConfig, Assigned
from groundrl.advantages.spread import assign_by_group
from groundrl.config.registry import register


@register("algorithm/advantage", "mean_baseline")
@dataclass(kw_only=True, slots=True)
class MeanBaselineConfig(AdvantageConfig):
    """The group's mean as baseline; nothing to set."""

    def build(self) -> MeanBaseline:
        return MeanBaseline()


class MeanBaseline:
    def assign(self, rewards: NDArray[np.float64], groups: NDArray[np.int64]) -> Assigned:
        return assign_by_group(rewards, groups, lambda r: r - r.mean())
