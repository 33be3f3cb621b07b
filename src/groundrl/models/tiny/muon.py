"""Muon in float32 for small matrices: momentum, then an orthogonalised update (Newton-Schulz).

torch.optim.Muon orthogonalises in bfloat16, which CPUs without bf16 units do slowly; this one batches
matrices of one shape and stays in float32. Used by the warm-up only.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

import torch
from torch import Tensor


def orthogonalise(matrices: Tensor, steps: int = 5) -> Tensor:
    """Nearest semi-orthogonal matrices of [n, rows, cols], by a quintic Newton-Schulz iteration."""
    a, b, c = 3.4445, -4.7750, 2.0315
    tall = matrices.shape[1] > matrices.shape[2]
    x = matrices.transpose(1, 2) if tall else matrices
    x = x / (x.flatten(1).norm(dim=1)[:, None, None] + 1e-7)
    for _ in range(steps):
        gram = x @ x.transpose(1, 2)
        x = a * x + (b * gram + c * gram @ gram) @ x
    return x.transpose(1, 2) if tall else x


class Muon(torch.optim.Optimizer):
    """Nesterov momentum whose update is orthogonalised; parameters must be matrices."""

    def __init__(self, params: Iterable[Tensor], lr: float, momentum: float = 0.95) -> None:
        super().__init__(list(params), {"lr": lr, "momentum": momentum})

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        for group in self.param_groups:
            by_shape: dict[torch.Size, list[Tensor]] = defaultdict(list)
            for parameter in group["params"]:
                if parameter.grad is not None:
                    by_shape[parameter.shape].append(parameter)
            for shape, parameters in by_shape.items():
                updates: list[Tensor] = []
                for parameter in parameters:
                    state = self.state[parameter]
                    if "momentum" not in state:
                        state["momentum"] = torch.zeros_like(parameter)
                    momentum = state["momentum"]
                    grad = parameter.grad
                    assert grad is not None
                    momentum.lerp_(grad, 1 - group["momentum"])
                    updates.append(grad.lerp(momentum, group["momentum"]))
                scale = max(1.0, shape[0] / shape[1]) ** 0.5
                for parameter, update in zip(parameters, orthogonalise(torch.stack(updates)), strict=True):
                    parameter.add_(update, alpha=-group["lr"] * scale)
