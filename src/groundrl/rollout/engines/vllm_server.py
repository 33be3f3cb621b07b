"""`rollout/engine=vllm_server`: OpenAI-compatible vLLM servers, started by the run or given by address."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any
from urllib.parse import urlsplit

from groundrl.config.registry import register
from groundrl.errors import ConfigError
from groundrl.rollout.engines.base import Engine
from groundrl.rollout.engines.vllm import VllmConfig, installed


class Transfer(StrEnum):
    """How weights reach the servers.

    auto  nccl where learner and started servers have GPUs of their own (`devices` names no GPU of the
          learner), else path
    path  through files in shared memory or `weights_folder`
    nccl  from GPU to GPU; a server has other GPUs than the learner
    ipc   a server on the learner's GPU reads its memory; one learner process
    """

    auto = "auto"
    path = "path"
    nccl = "nccl"
    ipc = "ipc"


@register("rollout/engine", "vllm_server")
@dataclass(kw_only=True, slots=True)
class VllmServerConfig(VllmConfig):
    """Settings of the server engine, beside those of `vllm` (which started servers are given).

    urls               servers that run already, as http://host:port; empty: the run starts its own
    servers            servers that each process of the run starts
    devices            CUDA_VISIBLE_DEVICES of each started server, over all processes; empty: inherited
    concurrency        requests in flight at each server
    startup_timeout_s  seconds that a server may take until it is healthy, at the start and after a restart
    retries            how often the requests of a call that a lost server left behind are asked again
    backoff_s          pause before the first repetition; it doubles with each one
    api_key_env        environment variable with the key that servers ask for, where they ask for one
    weights_folder     where pushed weights pass; given servers must see it (null: shared memory)
    transfer           how weights reach the servers; given ones need --weight-transfer-config for nccl, ipc
    """

    urls: list[str] = field(default_factory=list[str])
    servers: int = 1
    devices: list[str] = field(default_factory=list[str])
    concurrency: int = 64
    startup_timeout_s: float = 600.0
    retries: int = 5
    backoff_s: float = 1.0
    api_key_env: str = "VLLM_API_KEY"
    weights_folder: str | None = None
    transfer: Transfer = Transfer.auto

    def __post_init__(self) -> None:
        VllmConfig.__post_init__(self)
        for name in ("servers", "concurrency"):
            if getattr(self, name) < 1:
                raise ConfigError(name, "must be at least 1", got=getattr(self, name), todo="raise it")
        if self.retries < 0:
            raise ConfigError("retries", "must be >= 0", got=self.retries, todo="use 0 for none")
        if self.startup_timeout_s <= 0:
            raise ConfigError(
                "startup_timeout_s", "must be above 0", got=self.startup_timeout_s, todo="use e.g. 600"
            )
        if self.backoff_s < 0:
            raise ConfigError("backoff_s", "must be >= 0", got=self.backoff_s, todo="use e.g. 1")
        for url in self.urls:
            parts = urlsplit(url)
            if parts.username is not None or parts.password is not None:  # not repeated: it may hold a key
                raise ConfigError("urls", "an address holds a name or password", todo="use api_key_env")
            if parts.scheme not in ("http", "https") or not parts.hostname or parts.path not in ("", "/"):
                raise ConfigError("urls", "not an address of a server", got=url, todo="http://host:port")

    def share(self, rank: int, size: int) -> list[str]:
        """The given addresses that process `rank` of `size` uses: its server has its weights."""
        if self.urls and len(self.urls) < size:
            raise ConfigError(
                "urls", f"{size} processes need a server each", got=len(self.urls), todo="give more"
            )
        return [url.rstrip("/") for url in self.urls[rank::size]]

    def devices_of(self, rank: int, size: int) -> list[str | None]:
        """CUDA_VISIBLE_DEVICES of each server that process `rank` of `size` starts; None: inherited."""
        if not self.devices:
            return [None] * self.servers
        if len(self.devices) != size * self.servers:
            raise ConfigError(
                "devices",
                f"must name the devices of each of {size * self.servers} servers",
                got=len(self.devices),
                todo='e.g. ["6", "7"], or [] to inherit',
            )
        return list(self.devices[rank * self.servers : (rank + 1) * self.servers])

    def way(self, rank: int, size: int, own_gpu: str | None) -> Transfer:
        """path, nccl or ipc, for process `rank` of `size`, whose learner is on GPU `own_gpu` (as named in
        CUDA_VISIBLE_DEVICES; None: on a CPU). Raises ConfigError for a way that this machine lacks."""
        theirs = {gpu.strip() for one in self.devices for gpu in one.split(",")}
        if self.transfer is Transfer.auto:
            apart = own_gpu is not None and bool(theirs) and own_gpu not in theirs and not self.urls
            return Transfer.nccl if apart and installed() else Transfer.path
        if self.transfer is Transfer.path:
            return Transfer.path
        problem = ""
        if own_gpu is None:
            problem = "needs a learner on a CUDA device"
        elif not installed():
            problem = "needs vLLM in the learner's environment too"
        elif self.transfer is Transfer.ipc and size > 1:
            problem = f"works with one learner process, not with {size}"
        elif self.transfer is Transfer.nccl and not self.urls and (own_gpu in theirs or not theirs):
            problem = "needs servers on other GPUs than the learner's (rollout.engine.devices)"
        if problem:
            raise ConfigError(
                "rollout.engine.transfer", problem, got=self.transfer.value, todo="use path, or auto"
            )
        return self.transfer

    def copy_parts(self, processes: int) -> int:
        """None here: servers are processes with devices of their own."""
        return 0

    def build(self, model: Any, processor: Any) -> Engine:
        if not self.urls and not installed():
            raise ConfigError(
                "rollout.engine",
                "vLLM is not installed in this environment, so no server can be started",
                todo="run make setup-vllm and use .venv-vllm/bin/python, or give rollout.engine.urls",
            )
        from groundrl.rollout.engines.vllm_server_engine import VllmServerEngine

        return VllmServerEngine(model, processor, self)
