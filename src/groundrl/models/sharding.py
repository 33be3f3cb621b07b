"""Parameters, gradients and optimiser state spread over the processes of a run (FSDP2: `fully_shard`).

Units are the decoder layers and the vision blocks, the rest is one unit. FSDP gathers a unit's parameters
when its module is called; what this package computes with several modules at once is therefore attached to
the model as a method that FSDP knows (`attach`).
"""

from __future__ import annotations

import types
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor
from torch.distributed.fsdp import FSDPModule, fully_shard, register_fsdp_forward_method
from torch.distributed.tensor import DTensor, distribute_tensor

from groundrl.models.family import Family
from groundrl.world import World


def shard(model: Any, family: Family, world: World) -> None:
    """Spread the model over all processes, in place; nothing for one process alone."""
    if world.alone:
        return
    mesh = torch.distributed.device_mesh.init_device_mesh(next(model.parameters()).device.type, (world.size,))
    for path in (family.decoder_layers, family.vision_blocks):
        for block in model.get_submodule(path):
            fully_shard(block, mesh=mesh)
    fully_shard(model, mesh=mesh)


def is_sharded(model: Any) -> bool:
    return isinstance(model, FSDPModule)


def attached(model: Any, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """`function(model, ...)` with the model's parameters gathered around the call where they are sharded."""
    if not is_sharded(model):
        return types.MethodType(function, model)
    if not hasattr(model, name):
        setattr(model, name, types.MethodType(function, model))
        register_fsdp_forward_method(model, name)
    return getattr(model, name)


def whole(tensor: Any) -> Tensor:
    """The full tensor of a sharded one. Every process must ask for it."""
    return tensor.full_tensor() if isinstance(tensor, DTensor) else tensor


def like(value: Tensor, parameter: Any) -> Tensor:
    """A full tensor spread as `parameter` is; one that is spread already stays."""
    if isinstance(value, DTensor):
        return value
    if not isinstance(parameter, DTensor):
        return value.to(parameter.device)
    return distribute_tensor(value.to(parameter.device), parameter.device_mesh, parameter.placements)


def full_state(model: Any) -> Iterator[tuple[str, Tensor]]:
    """Names and full values of the model's state, one at a time. Every process must go through it."""
    for name, value in model.state_dict().items():
        yield name, whole(value)
