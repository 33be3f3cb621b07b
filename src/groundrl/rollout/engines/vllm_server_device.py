"""Weights from the learner's GPU to those of its servers, by vLLM's own weight transfer (NCCL or CUDA IPC).

vLLM has both ends of it; here are the calls that go over HTTP, the weights in the form that it asks for, and
a time limit. Nothing is kept: a server that is started again cannot be given the weights once more.
"""

from __future__ import annotations

import base64
import multiprocessing
import pickle
import socket
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from multiprocessing.pool import ThreadPool
from typing import Any
from urllib.parse import urlsplit

import torch
from torch import Tensor

from groundrl.errors import EngineError
from groundrl.rollout.engines.vllm_server import Transfer
from groundrl.rollout.engines.vllm_server_link import Link, SlowError
from groundrl.rollout.engines.vllm_server_process import free_port


@dataclass(frozen=True, slots=True, kw_only=True)
class Meta:
    """Name, dtype and shape of one tensor, under the names that vLLM reads."""

    name: str
    dtype: torch.dtype
    shape: tuple[int, ...]


class Weights:
    """Tensors by name as vLLM's `WeightSource`: what there is, and the tensors in the same order."""

    def __init__(self, tensors: Mapping[str, Tensor]) -> None:
        self.tensors = tensors

    def metadata(self) -> list[Meta]:
        return [Meta(name=name, dtype=t.dtype, shape=tuple(t.shape)) for name, t in self.tensors.items()]

    def __iter__(self) -> Iterator[tuple[str, Tensor]]:
        return iter(self.tensors.items())


class Client:
    """vLLM's `VLLMWeightSyncClient` over a `Link`. deadline: of all its calls, on time.monotonic()."""

    def __init__(self, link: Link) -> None:
        self.link = link
        self.deadline = 0.0

    def init_weight_transfer_engine(self, init_info: dict[str, Any]) -> None:
        self._post("/init_weight_transfer_engine", {"init_info": init_info})

    def start_weight_update(self) -> None:
        self._post("/start_weight_update", {})

    def update_weights(self, update_info: dict[str, Any]) -> None:
        self._post("/update_weights", {"update_info": sendable(update_info)})

    def finish_weight_update(self, weight_version: str | None = None) -> None:
        """The weights get their name later, once the caches are empty."""
        self._post("/finish_weight_update", {})

    def _post(self, path: str, body: Any) -> None:
        self.link.call("POST", path, body, deadline=self.deadline)


def sendable(update_info: dict[str, Any]) -> dict[str, Any]:
    """The same without what JSON cannot say: IPC handles are pickled, as vLLM unpacks them."""
    handles = update_info.get("ipc_handles")
    if handles is None:
        return update_info
    rest = {name: value for name, value in update_info.items() if name != "ipc_handles"}
    return rest | {"ipc_handles_pickled": base64.b64encode(pickle.dumps(handles)).decode("ascii")}


class Wire:
    """The way to one server; a server that is started anew needs a new one."""

    def __init__(self, link: Link, transfer: Transfer) -> None:
        self.client = Client(link)
        self.transfer = transfer
        self._sender: Any = None

    def send(self, weights: Weights, deadline: float) -> None:
        """Put them in place of the server's. Raises SlowError at the deadline (what hangs in NCCL then stays
        hanging in its thread), LostError when the server is lost."""
        self.client.deadline = deadline
        within(deadline, lambda: self._send(weights), self.client.link.url)

    def _send(self, weights: Weights) -> None:
        if self._sender is None:
            self._sender = self._connect(weights)
        self._sender.source = weights
        self._sender.send_weights()

    def _connect(self, weights: Weights) -> Any:
        """vLLM's sending end. Every process of the run is the first, and only, sender of its own servers."""
        if self.transfer is Transfer.ipc:
            from vllm.distributed.weight_transfer.ipc_engine import (  # pyright: ignore[reportMissingImports]
                IPCTrainerInitInfo,
                IPCTrainerWeightTransferEngine,
            )

            info = IPCTrainerInitInfo(rank=0)
            return IPCTrainerWeightTransferEngine.trainer_init(info, client=self.client, source=weights)
        from vllm.distributed.weight_transfer.nccl_engine import (  # pyright: ignore[reportMissingImports]
            NCCLTrainerInitInfo,
            NCCLTrainerWeightTransferEngine,
        )

        link = self.client.link
        workers = link.call("GET", "/get_world_size", deadline=self.client.deadline)["world_size"]
        info = NCCLTrainerInitInfo(
            rank=0,
            master_address=address_towards(link.url),
            master_port=free_port(),
            world_size=1 + workers,
        )
        return NCCLTrainerWeightTransferEngine.trainer_init(info, client=self.client, source=weights)


def within(deadline: float, work: Callable[[], None], where: str) -> None:
    """Do it in a thread, on this thread's GPU; raises what it raises, and SlowError at the deadline."""
    device = torch.cuda.current_device() if torch.cuda.is_available() else None

    def run() -> None:
        if device is not None:
            torch.cuda.set_device(device)
        work()

    pool = ThreadPool(1)  # its thread is a daemon: one that hangs does not keep the process from ending
    try:
        pool.apply_async(run).get(max(0.0, deadline - time.monotonic()))
    except multiprocessing.TimeoutError as error:
        raise SlowError(f"{where}: the weight transfer did not end in time") from error
    finally:
        pool.close()


def address_towards(url: str) -> str:
    """This machine's address as that server can reach it."""
    parts = urlsplit(url)
    host = parts.hostname or ""
    try:
        family, _, _, _, target = socket.getaddrinfo(host, parts.port or 80, type=socket.SOCK_DGRAM)[0]
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.connect(target)  # sends nothing
            return str(probe.getsockname()[0])
    except OSError as error:
        raise EngineError(f"vllm_server: no way to {host}: {error}") from error
