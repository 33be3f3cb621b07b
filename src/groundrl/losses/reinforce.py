"""The plain policy gradient (Williams 1992, REINFORCE; Ahmadian et al. 2024, section 3.2).

loss = -A * logprob

Without a ratio it is exact for the first update of a batch only; later ones use stale answers uncorrected.
"""

from __future__ import annotations

import torch
from torch import Tensor

from groundrl.losses.term import PolicyTerm


def reinforce(logprobs: Tensor, old_logprobs: Tensor, advantages: Tensor, selected: Tensor) -> PolicyTerm:
    """A `Term`."""
    nowhere = torch.zeros_like(selected)
    return PolicyTerm(loss=-advantages[:, None] * logprobs, clipped_low=nowhere, clipped_high=nowhere)
