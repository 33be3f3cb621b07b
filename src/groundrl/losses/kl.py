"""The k3 estimator of KL(policy || reference), per token (Schulman 2020; DeepSeekMath, eq. 4).

k3 = exp(reference - policy) - (reference - policy) - 1  >= 0
"""

from __future__ import annotations

import torch
from torch import Tensor


def k3(logprobs: Tensor, reference_logprobs: Tensor) -> Tensor:
    """Per token, same shape; samples must come from the policy of `logprobs`."""
    gap = reference_logprobs - logprobs
    return torch.exp(gap) - gap - 1
