"""The processes of one run, as torchrun starts them: `torchrun --nproc-per-node N train.py ...`.

Every process runs the same program on its own share of each batch. What one decides for all (the run folder)
is broadcast, what is measured is gathered, so that all hold the same numbers; only the first one writes.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, TypeVar

T = TypeVar("T")

TIMEOUT_S = 1800
"""After this long without the others a process gives up, so that one that hangs does not hold the rest."""


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """This process among all of the run. One process alone needs no communication and does none."""

    rank: int = 0
    size: int = 1
    local_rank: int = 0

    @classmethod
    def of(cls, environ: Mapping[str, str] = os.environ) -> World:
        """What torchrun says in the environment; alone without it."""
        if "WORLD_SIZE" not in environ:
            return cls()
        return cls(
            rank=int(environ["RANK"]),
            size=int(environ["WORLD_SIZE"]),
            local_rank=int(environ.get("LOCAL_RANK", "0")),
        )

    @property
    def alone(self) -> bool:
        return self.size == 1

    @property
    def first(self) -> bool:
        """Whether this process writes, prints and decides."""
        return self.rank == 0

    def start(self, *, cuda: bool) -> None:
        """Meet the others: NCCL between GPUs, gloo between CPUs."""
        if self.alone:
            return
        import torch
        import torch.distributed as dist

        if cuda:
            torch.cuda.set_device(self.local_rank)
        if not dist.is_initialized():
            backend = "cpu:gloo,cuda:nccl" if cuda else "gloo"
            dist.init_process_group(backend, timeout=timedelta(seconds=TIMEOUT_S))

    def close(self) -> None:
        if self.alone:
            return
        import torch.distributed as dist

        if dist.is_initialized():
            dist.destroy_process_group()

    def gather(self, value: T) -> list[T]:
        """The value of every process, in order of rank, in every process."""
        if self.alone:
            return [value]
        import torch.distributed as dist

        out: list[Any] = [None] * self.size
        dist.all_gather_object(out, value)
        return out

    def gather_flat(self, values: Sequence[T]) -> list[T]:
        """The lists of all processes as one."""
        return [one for part in self.gather(list(values)) for one in part]

    def share(self, value: T) -> T:
        """The first process' value, in every process."""
        if self.alone:
            return value
        import torch.distributed as dist

        out: list[Any] = [value]
        dist.broadcast_object_list(out, src=0)
        return out[0]

    def barrier(self) -> None:
        """Wait for the others."""
        self.gather(None)
