"""The clipped importance weight (MiniMax-M1, 2025, section 3.1, eq. 4 and 5).

w    = stop_gradient(clip(exp(logprob - old_logprob), 1 - clip_low, 1 + clip_high))
loss = -w * A * logprob

Every token keeps a gradient: the bound limits its weight instead of cutting it off.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from groundrl.losses.term import PolicyTerm


@dataclass(frozen=True, slots=True, kw_only=True)
class CISPO:
    clip_low: float
    clip_high: float

    def __call__(
        self, logprobs: Tensor, old_logprobs: Tensor, advantages: Tensor, selected: Tensor
    ) -> PolicyTerm:
        ratio = torch.exp(logprobs.detach() - old_logprobs)
        weight = ratio.clamp(1 - self.clip_low, 1 + self.clip_high)
        return PolicyTerm(
            loss=-weight * advantages[:, None] * logprobs,
            clipped_low=ratio < 1 - self.clip_low,
            clipped_high=ratio > 1 + self.clip_high,
        )
