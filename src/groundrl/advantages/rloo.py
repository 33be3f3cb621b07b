"""The leave-one-out advantage (Ahmadian et al. 2024, "Back to Basics", RLOO estimator; Kool et al. 2019).

    A_i = r_i - 1 / (n - 1) * sum over j != i of r_j

The baseline of a rollout does not depend on it, so the gradient stays unbiased. n counts valid rewards only.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from groundrl.advantages.base import AdvantageConfig, Assigned
from groundrl.advantages.spread import assign_by_group
from groundrl.config.registry import register


@register("algorithm/advantage", "rloo")
@dataclass(kw_only=True, slots=True)
class RLOOConfig(AdvantageConfig):
    """The mean of the group's other rewards as baseline; nothing to set."""

    def build(self) -> RLOO:
        return RLOO()


class RLOO:
    def assign(self, rewards: NDArray[np.float64], groups: NDArray[np.int64]) -> Assigned:
        return assign_by_group(rewards, groups, lambda r: r - (r.sum() - r) / (len(r) - 1))
