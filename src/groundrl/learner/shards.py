"""Tensors of several processes in safetensors shards, read back by any number of processes.

torch.distributed.checkpoint with its Hugging Face storage: each process writes what it holds, and where a
piece belongs stands in the file's own header. No pickle is written or read.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from safetensors import safe_open
from torch import Tensor
from torch.distributed.checkpoint import HuggingFaceStorageReader, HuggingFaceStorageWriter

SCALARS = "scalars.safetensors"


def save_shards(folder: Path, tensors: Mapping[str, Tensor]) -> None:
    """Write sharded tensors by name; numbers without dimensions, equal in all processes, are written once."""
    from safetensors.torch import save_file

    if dist.get_rank() == 0:
        folder.mkdir()
        scalars = {name: value.cpu() for name, value in tensors.items() if not value.dim()}
        save_file(scalars, folder / SCALARS)
    dist.barrier()
    parts: dict[str, Any] = {name: value for name, value in tensors.items() if value.dim()}
    writer = HuggingFaceStorageWriter(path=str(folder / "parts"), save_distributed=True)
    dcp.save(parts, storage_writer=writer)


def load_shards(folder: Path, parameters: Mapping[str, Any]) -> dict[str, Tensor]:
    """The tensors of a folder, each spread as the parameter PARAMETER of its name PARAMETER/what is here."""
    from safetensors.torch import load_file

    out: dict[str, Tensor] = load_file(folder / SCALARS)
    wanted: dict[str, Any] = {}
    for file in sorted((folder / "parts").glob("*.safetensors")):
        with safe_open(file, framework="pt") as opened:
            for name in opened.keys():  # noqa: SIM118
                parameter = parameters.get(name.rpartition("/")[0])
                if parameter is not None and name not in wanted:
                    wanted[name] = torch.zeros_like(parameter.detach(), dtype=torch.float32)
    reader = HuggingFaceStorageReader(path=str(folder / "parts"))
    dcp.load(wanted, storage_reader=reader, no_dist=not dist.is_initialized())
    return out | wanted
