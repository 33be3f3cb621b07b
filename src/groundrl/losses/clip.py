"""The clipped policy-gradient term, per token (VLM-R1 paper, GRPO objective; PPO, eq. 7).

ratio = exp(logprob - old_logprob)
loss  = -min(ratio * A, clip(ratio, 1 - clip_low, 1 + clip_high) * A)
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True, slots=True)
class ClipTerm:
    """loss [B, C] per token; clipped_low, clipped_high [B, C] bool: where the clip cut the gradient."""

    loss: Tensor
    clipped_low: Tensor
    clipped_high: Tensor


def clip_term(
    logprobs: Tensor, old_logprobs: Tensor, advantages: Tensor, *, clip_low: float, clip_high: float
) -> ClipTerm:
    """logprobs, old_logprobs [B, C]; advantages [B]."""
    ratio = torch.exp(logprobs - old_logprobs)
    a = advantages[:, None]
    clipped = ratio.clamp(1 - clip_low, 1 + clip_high)
    return ClipTerm(
        loss=-torch.minimum(ratio * a, clipped * a),
        clipped_low=(ratio < 1 - clip_low) & (a < 0),
        clipped_high=(ratio > 1 + clip_high) & (a > 0),
    )
