"""The policy term: what a loss makes of a micro-batch's log-probs and advantages."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from torch import Tensor


@dataclass(frozen=True, slots=True)
class PolicyTerm:
    """loss [B, C] per token; clipped_low, clipped_high [B, C] bool: where the bound was in force."""

    loss: Tensor
    clipped_low: Tensor
    clipped_high: Tensor


class Term(Protocol):
    def __call__(
        self, logprobs: Tensor, old_logprobs: Tensor, advantages: Tensor, selected: Tensor
    ) -> PolicyTerm:
        """logprobs, old_logprobs [B, C], 0 where not selected; advantages [B]; selected [B, C] bool.

        A row is a segment of a rollout (a whole rollout in a single turn). Values of tokens that are not
        selected are ignored.
        """
        ...
