"""Float32 master weights for parameters stored in lower precision (Micikevicius et al. 2018, section 3.1).

bfloat16 keeps 8 bits: next to a weight of 0.02 the smallest step is 1.2e-4, so AdamW at the published
learning rate of 1e-6 would round nearly every update away, and sums of small gradients with it. The optimiser
therefore steps float32 copies, gradients are added up in float32, and the model gets the rounded result. A
parameter that is float32 (or float64) already is its own master.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor

from groundrl.models.sharding import like

LOW = (torch.bfloat16, torch.float16)


class MasterWeights:
    """The parameters that learn, by name, and what the optimiser steps in their place."""

    def __init__(self, named: Iterable[tuple[str, Any]]) -> None:
        self.stored: dict[str, Any] = {name: p for name, p in named if p.requires_grad}
        self.masters: dict[str, Any] = {
            name: torch.nn.Parameter(p.detach().float()) if p.dtype in LOW else p
            for name, p in self.stored.items()
        }

    @property
    def parameters(self) -> list[Any]:
        """What the optimiser steps, in the order of the model's parameters."""
        return list(self.masters.values())

    def copies(self) -> dict[str, Tensor]:
        """Masters that are not the model's own parameters."""
        return {name: master for name, master in self.masters.items() if master is not self.stored[name]}

    def take_gradients(self) -> None:
        """Add the model's gradients to the masters' and clear them: after every backward pass."""
        for name, master in self.copies().items():
            stored = self.stored[name]
            if stored.grad is None:
                continue
            if master.grad is None:
                master.grad = stored.grad.float()
            else:
                master.grad.add_(stored.grad)
            stored.grad = None

    @torch.no_grad()
    def write_back(self) -> None:
        """Round the masters into the model: after every optimiser step."""
        for name, master in self.copies().items():
            self.stored[name].copy_(master)

    @torch.no_grad()
    def load(self, saved: dict[str, Tensor]) -> None:
        """Masters from a checkpoint; those it does not name start from the model's present weights."""
        for name, master in self.copies().items():
            master.copy_(like(saved[name], master) if name in saved else self.stored[name])
