"""Token weights against the gap between the engine that drew a token and the learner that scores it.

ratio = exp(old - behaviour): the learner's probability, at the time of drawing, over the engine's.

Truncated importance sampling (Yao et al. 2025, "Your Efficient RL Framework Secretly Brings You Off-Policy
RL Training"):

    w = min(ratio, cap)

Masking (IcePop, Ling Team 2025, "Every Step Evolves"):

    w = ratio if low <= ratio <= high else 0

Both give exactly 1 where the two probabilities are equal. The weight carries no gradient.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor


@dataclass(frozen=True, slots=True)
class Weighted:
    """weight [B, C] of the policy term; limited [B, C] bool: where the ratio was capped or masked."""

    weight: Tensor
    limited: Tensor


class Correction(Protocol):
    def __call__(self, ratio: Tensor) -> Weighted:
        """ratio [B, C], without gradient."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Truncate:
    cap: float

    def __call__(self, ratio: Tensor) -> Weighted:
        return Weighted(weight=ratio.clamp(max=self.cap), limited=ratio > self.cap)


@dataclass(frozen=True, slots=True, kw_only=True)
class Mask:
    low: float
    high: float

    def __call__(self, ratio: Tensor) -> Weighted:
        limited = (ratio < self.low) | (ratio > self.high)
        return Weighted(weight=torch.where(limited, torch.zeros_like(ratio), ratio), limited=limited)
