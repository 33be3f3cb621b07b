"""The clipped policy-gradient term, per token (VLM-R1 paper, GRPO objective; PPO, eq. 7).

ratio = exp(logprob - old_logprob)
loss  = -min(ratio * A, clip(ratio, 1 - clip_low, 1 + clip_high) * A)
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from groundrl.losses.term import PolicyTerm


def clip_term(
    logprobs: Tensor, old_logprobs: Tensor, advantages: Tensor, *, clip_low: float, clip_high: float
) -> PolicyTerm:
    """logprobs, old_logprobs [B, C]; advantages [B]. Clipped: where the clip cut the gradient."""
    return clipped_surrogate(torch.exp(logprobs - old_logprobs), advantages[:, None], clip_low, clip_high)


def clipped_surrogate(ratio: Tensor, advantages: Tensor, clip_low: float, clip_high: float) -> PolicyTerm:
    """ratio and advantages of shapes that broadcast."""
    clipped = ratio.clamp(1 - clip_low, 1 + clip_high)
    return PolicyTerm(
        loss=-torch.minimum(ratio * advantages, clipped * advantages),
        clipped_low=(ratio < 1 - clip_low) & (advantages < 0),
        clipped_high=(ratio > 1 + clip_high) & (advantages > 0),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Clip:
    clip_low: float
    clip_high: float

    def __call__(
        self, logprobs: Tensor, old_logprobs: Tensor, advantages: Tensor, selected: Tensor
    ) -> PolicyTerm:
        return clip_term(logprobs, old_logprobs, advantages, clip_low=self.clip_low, clip_high=self.clip_high)
