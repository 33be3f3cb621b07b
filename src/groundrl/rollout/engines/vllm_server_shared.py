"""The fleets of this process. Engines that ask for equal servers share them: a start takes most of a minute,
and a second server beside the first may not fit on its GPU. Weights are pushed whenever they change hands."""

from __future__ import annotations

import contextlib
import os
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from groundrl.models.processor import Processor
from groundrl.rollout.engines.vllm_launch import engine_settings, link_weights, scratch_folder, write_folder
from groundrl.rollout.engines.vllm_server import Transfer, VllmServerConfig
from groundrl.rollout.engines.vllm_server_fleet import Fleet
from groundrl.rollout.engines.vllm_server_member import Member
from groundrl.rollout.engines.vllm_server_process import ServerProcess, arguments
from groundrl.world import World


@dataclass(slots=True, kw_only=True)
class Shared:
    """A fleet, the folder that its servers start from, and how many engines use it."""

    fleet: Fleet
    scratch: tempfile.TemporaryDirectory[str]
    key: tuple[str, ...]
    users: int = 1


_RUNNING: list[Shared] = []


def join(model: Any, processor: Processor, config: VllmServerConfig) -> Fleet:
    """Servers for this model and these settings; `leave` gives them back."""
    world = World.of()
    name = f"rank {world.rank}"
    secret = os.environ.get(config.api_key_env) or None
    if config.urls:
        given = [Member(url=url, key=secret, process=None) for url in config.share(world.rank, world.size)]
        fleet = Fleet(given, name=name)
        fleet.start(config)
        return fleet
    cuda = torch.cuda.is_available()
    config.check_machine(cuda=cuda)
    devices = config.devices_of(world.rank, world.size)
    scratch = scratch_folder()
    first = Path(scratch.name) / "first"
    write_folder(first, model, processor)
    key = _key(first, engine_settings(Path("any"), model, config, processor.family), devices)
    for shared in _RUNNING:
        if shared.key == key:
            scratch.cleanup()
            shared.users += 1
            return shared.fleet
    link_weights(first, model)
    transfer = way(config)
    words = arguments(engine_settings(first, model, config, processor.family))
    words += ["--served-model-name", "policy", "--enable-scale-out", "--disable-uvicorn-access-log"]
    pickles = transfer is Transfer.ipc
    if transfer is not Transfer.path:
        words += arguments({"weight_transfer_config": {"backend": transfer.value}})
    processes = [
        ServerProcess(
            words, Path(scratch.name) / f"server{n}.log", cuda=cuda, devices=own, key=secret, pickles=pickles
        )
        for n, own in enumerate(devices)
    ]
    fleet = Fleet([Member(url="", key=secret, process=process) for process in processes], name=name)
    with contextlib.ExitStack() as undo:
        undo.callback(scratch.cleanup)
        undo.callback(fleet.close)
        fleet.start(config)
        undo.pop_all()
    _RUNNING.append(Shared(fleet=fleet, scratch=scratch, key=key))
    return fleet


def way(config: VllmServerConfig) -> Transfer:
    """How this process hands weights to its servers."""
    world = World.of()
    own_gpu = None
    if torch.cuda.is_available():
        known = os.environ.get("CUDA_VISIBLE_DEVICES")
        own_gpu = known.split(",")[world.local_rank].strip() if known else str(world.local_rank)
    return config.way(world.rank, world.size, own_gpu)


def leave(fleet: Fleet) -> None:
    """End the servers with the last engine that uses them."""
    for shared in _RUNNING:
        if shared.fleet is fleet:
            shared.users -= 1
            if shared.users == 0:
                _RUNNING.remove(shared)
                fleet.close()
                shared.scratch.cleanup()
            return
    fleet.close()


def _key(folder: Path, settings: dict[str, Any], devices: list[str | None]) -> tuple[str, ...]:
    """Everything that a server of these settings depends on, but for weights."""
    texts = [file.read_text("utf-8") for file in sorted(folder.iterdir())]
    return (repr(sorted(settings.items())), repr(devices), *texts)
