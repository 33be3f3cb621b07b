"""The sequence-level clipped term (Zheng et al. 2025, "Group Sequence Policy Optimization", eq. 5 and 7).

s_i  = (pi(y_i) / pi_old(y_i)) ^ (1 / |y_i|) = exp(mean over t of (logprob_it - old_logprob_it))
loss = -min(s_i * A_i, clip(s_i, 1 - clip_low, 1 + clip_high) * A_i)

The value stands at every token of its row, so the token weights of `sequence_mean` give the paper's mean
over sequences. A rollout of several segments has one ratio a segment.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from groundrl.losses.clip import clipped_surrogate
from groundrl.losses.term import PolicyTerm


@dataclass(frozen=True, slots=True, kw_only=True)
class GSPO:
    clip_low: float
    clip_high: float

    def __call__(
        self, logprobs: Tensor, old_logprobs: Tensor, advantages: Tensor, selected: Tensor
    ) -> PolicyTerm:
        lengths = selected.sum(1, keepdim=True).clamp(min=1)
        gap = torch.where(selected, logprobs - old_logprobs, torch.zeros_like(logprobs))
        ratio = torch.exp(gap.sum(1, keepdim=True) / lengths)
        term = clipped_surrogate(ratio, advantages[:, None], self.clip_low, self.clip_high)
        return PolicyTerm(
            loss=term.loss.expand_as(logprobs),
            clipped_low=term.clipped_low.expand_as(logprobs),
            clipped_high=term.clipped_high.expand_as(logprobs),
        )
