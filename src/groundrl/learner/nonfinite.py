"""What is wrong with the rows of an optimiser step whose loss or gradient is not finite."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from groundrl.learner.experience import Experience

LOG_PROB, LOSS, GRADIENT = "log-prob", "loss", "gradient"


@dataclass(frozen=True, slots=True, kw_only=True)
class Skipped:
    """An optimiser step that was not made.

    update   its number in the run, from 1
    rows     this process' rows of it
    faults   of each row, what is not finite when it is scored alone; empty for a row in order
    """

    update: int
    rows: Sequence[Experience]
    faults: Sequence[tuple[str, ...]]


def faults_of(logprobs: Tensor, loss: Tensor, parameters: Sequence[Any]) -> tuple[str, ...]:
    """What of one row is not finite.

    logprobs: of its selected tokens [n]; loss: its part, with gradient; parameters: those whose gradient is
    looked at where log-probs and loss are finite (none: the gradient is not looked at)
    """
    values = {LOG_PROB: logprobs.detach(), LOSS: loss.detach()}
    found = tuple(name for name, value in values.items() if not bool(torch.isfinite(value).all()))
    if found or not parameters:
        return found
    gradients = torch.autograd.grad(loss, list(parameters), allow_unused=True)
    finite = all(bool(torch.isfinite(one).all()) for one in gradients if one is not None)
    return () if finite else (GRADIENT,)
