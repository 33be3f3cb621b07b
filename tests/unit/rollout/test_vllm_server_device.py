"""What is said to a server when weights go from GPU to GPU; vLLM's sending end is a stand-in here.

tests/gpu moves real weights; tests/vllm/test_transfer_messages.py asks vLLM's own classes.
"""

from __future__ import annotations

import base64
import pickle
import sys
import threading
import time
import types
from collections.abc import Iterator
from typing import Any, ClassVar

import pytest
import torch
from tests.fake_vllm_server import FakeServer, fleet_of, settings

from groundrl.errors import ConfigError, EngineError
from groundrl.rollout.engines.vllm_server import Transfer, VllmServerConfig
from groundrl.rollout.engines.vllm_server_device import Weights, address_towards, sendable, within
from groundrl.rollout.engines.vllm_server_link import SlowError
from groundrl.rollout.engines.vllm_server_member import Pushed

TENSORS = {"b": torch.ones(2, 3, dtype=torch.bfloat16), "a": torch.zeros(4)}


@pytest.fixture
def server() -> Iterator[FakeServer]:
    with FakeServer().running() as one:
        yield one


class Sender:
    """Makes the calls of vLLM's sending end, in its order."""

    made: ClassVar[list[Any]] = []

    def __init__(self, info: Any, client: Any, source: Weights) -> None:
        self.info, self.client, self.source = info, client, source
        self.made.append(self)

    @classmethod
    def trainer_init(cls, info: Any, *, client: Any, source: Weights) -> Sender:
        client.init_weight_transfer_engine(vars(info))
        return cls(info, client, source)

    def send_weights(self) -> None:
        meta = self.source.metadata()
        self.sent = [name for name, _ in self.source]
        self.client.start_weight_update()
        self.client.update_weights({"names": [m.name for m in meta], "shapes": [m.shape for m in meta]})
        self.client.finish_weight_update()


@pytest.fixture
def vllm(monkeypatch: pytest.MonkeyPatch) -> None:
    Sender.made = []
    for name, prefix in (("nccl_engine", "NCCL"), ("ipc_engine", "IPC")):
        module = types.ModuleType(name)
        module.__dict__[f"{prefix}TrainerInitInfo"] = types.SimpleNamespace
        module.__dict__[f"{prefix}TrainerWeightTransferEngine"] = Sender
        monkeypatch.setitem(sys.modules, f"vllm.distributed.weight_transfer.{name}", module)
    for name in ("vllm", "vllm.distributed", "vllm.distributed.weight_transfer"):
        monkeypatch.setitem(sys.modules, name, types.ModuleType(name))


def pushed(version: str, transfer: Transfer = Transfer.nccl, weights: Any = TENSORS) -> Pushed:
    return Pushed(version=version, transfer=transfer, weights=None if weights is None else Weights(weights))


UPDATE = ["/start_weight_update", "/update_weights", "/finish_weight_update"]
NAMED = ["/reset_mm_cache", "/reset_encoder_cache", "/reset_prefix_cache", "/update_weight_version"]


def test_a_push_over_nccl(server, vllm) -> None:
    """One connection for all pushes; weights have their name only behind empty caches."""
    fleet = fleet_of(server)
    for version in ("w-1", "w-2", "w-2"):
        fleet.ask([], pushed(version), settings(), "sync_weights")
    first = ["/weight_info", "/get_world_size", "/init_weight_transfer_engine", *UPDATE, *NAMED]
    calls = [path for path in server.calls if path != "/health"]
    assert calls == [*first, "/weight_info", *UPDATE, *NAMED, "/weight_info"]
    assert server.version == "w-2"
    (sender,) = Sender.made
    info = vars(sender.info)
    assert (info["rank"], info["world_size"], info["master_address"]) == (0, 3, "127.0.0.1")
    assert server.bodies["/init_weight_transfer_engine"] == {"init_info": info}
    assert server.bodies["/update_weights"] == {"update_info": {"names": ["b", "a"], "shapes": [[2, 3], [4]]}}
    assert sender.sent == ["b", "a"]
    assert [(m.name, m.dtype, m.shape) for m in Weights(TENSORS).metadata()] == [
        ("b", torch.bfloat16, (2, 3)),
        ("a", torch.float32, (4,)),
    ]


def test_a_push_over_ipc_asks_for_no_group(server, vllm) -> None:
    fleet_of(server).ask([], pushed("w-1", Transfer.ipc), settings(), "sync_weights")
    assert "/get_world_size" not in server.calls
    assert server.bodies["/init_weight_transfer_engine"] == {"init_info": {"rank": 0}}


def test_handles_are_sent_as_vllm_unpacks_them() -> None:
    handles = [{"GPU-1": (torch.float32, (2,), 7)}]
    said = sendable({"names": ["a"], "ipc_handles": handles})
    assert said.keys() == {"names", "ipc_handles_pickled"}
    assert pickle.loads(base64.b64decode(said["ipc_handles_pickled"])) == handles


def test_a_server_that_lost_its_weights_is_a_named_error(server, vllm) -> None:
    """They may have changed since: no others are sent under the old name."""
    fleet = fleet_of(server)
    fleet.ask([], pushed("w-1"), settings(), "sync_weights")
    fleet.ask([], pushed("w-1", weights=None), settings(), "generate")
    server.version = "default"
    with pytest.raises(EngineError, match=r"has lost the weights, .*transfer=nccl .*or use transfer=path"):
        fleet.ask([], pushed("w-1", weights=None), settings(), "generate")


def test_a_transfer_that_hangs_is_a_named_error_within_the_time_out(server, vllm, monkeypatch) -> None:
    for_ever = threading.Event()
    monkeypatch.setattr(Sender, "send_weights", lambda self: for_ever.wait())
    with pytest.raises(EngineError, match=r"rank 3: sync_weights took longer than 0\.3 s .*transfer did not"):
        fleet_of(server).ask([], pushed("w-1"), settings(timeout_s=0.3), "sync_weights")
    for_ever.set()
    with pytest.raises(ZeroDivisionError):
        within(time.monotonic() + 10, lambda: 1 // 0, "here")
    with pytest.raises(SlowError, match="here: the weight transfer"):
        within(time.monotonic() - 1, lambda: None, "here")


@pytest.mark.parametrize(
    ("asked", "devices", "urls", "own_gpu", "way"),
    [
        ("auto", [], [], None, "path"),  # a CPU
        ("auto", [], [], "0", "path"),  # servers inherit the learner's GPU
        ("auto", ["0,1"], [], "0", "path"),
        ("auto", ["1"], [], "0", "nccl"),
        ("auto", ["1"], ["http://h:1"], "0", "path"),  # how a given server was started is not known
        ("path", ["1"], [], "0", "path"),
        ("nccl", ["1"], [], "0", "nccl"),
        ("nccl", [], ["http://h:1"], "0", "nccl"),
        ("ipc", [], [], "0", "ipc"),
    ],
)
def test_which_way_weights_take(monkeypatch, asked, devices, urls, own_gpu, way) -> None:
    monkeypatch.setattr("groundrl.rollout.engines.vllm_server.installed", lambda: True)
    config = VllmServerConfig(transfer=Transfer(asked), devices=devices, urls=urls)
    assert config.way(0, 1, own_gpu) is Transfer(way)


@pytest.mark.parametrize(
    ("asked", "size", "own_gpu", "there", "message"),
    [
        ("nccl", 1, None, True, r"needs a learner on a CUDA device, got 'nccl'; use path, or auto"),
        ("ipc", 1, "0", False, "needs vLLM in the learner's environment too"),
        ("ipc", 2, "0", True, "works with one learner process, not with 2"),
        (
            "nccl",
            1,
            "1",
            True,
            r"needs servers on other GPUs than the learner's \(rollout\.engine\.devices\)",
        ),
    ],
)
def test_ways_that_cannot_be_had(monkeypatch, asked, size, own_gpu, there, message) -> None:
    monkeypatch.setattr("groundrl.rollout.engines.vllm_server.installed", lambda: there)
    config = VllmServerConfig(transfer=Transfer(asked), devices=["1"])
    with pytest.raises(ConfigError, match=r"^rollout\.engine\.transfer: " + message):
        config.way(0, size, own_gpu)
    if there:
        monkeypatch.setattr("groundrl.rollout.engines.vllm_server.installed", lambda: False)
        assert VllmServerConfig(devices=["1"]).way(0, 1, "0") is Transfer.path


def test_the_address_that_a_server_reaches_us_at() -> None:
    assert address_towards("http://127.0.0.1:8000") == "127.0.0.1"
    with pytest.raises(EngineError, match=r"no way to no-such-host\.invalid"):
        address_towards("http://no-such-host.invalid:8000")
