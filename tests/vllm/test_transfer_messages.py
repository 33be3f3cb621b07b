"""What vLLM's own sending end makes of our weights and calls, its NCCL group replaced: no GPU is needed."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest
import torch
from tests.fake_vllm_server import FakeServer

from groundrl.rollout.engines.vllm_server import Transfer
from groundrl.rollout.engines.vllm_server_device import Weights, Wire
from groundrl.rollout.engines.vllm_server_link import Link

TENSORS = {"b": torch.ones(2, 3, dtype=torch.bfloat16), "a": torch.zeros(4)}


def test_vllm_sends_our_weights_and_reads_its_own_messages(monkeypatch: pytest.MonkeyPatch) -> None:
    """The server has two workers, so the group has three members; both pushes use one group."""
    nccl: Any = pytest.importorskip("vllm.distributed.weight_transfer.nccl_engine")
    groups: list[Any] = []
    sent: list[tuple[str, torch.Tensor]] = []

    def opened(info: Any) -> str:
        groups.append(info)
        return "group"

    def producer(iterator: Any, group: str, **settings: Any) -> None:
        assert (group, settings["src"]) == ("group", 0)
        sent.extend(iterator)

    monkeypatch.setattr(nccl, "open_trainer_endpoint", opened)
    monkeypatch.setattr(nccl, "packed_nccl_broadcast_producer", producer)
    with FakeServer().running() as server:
        wire = Wire(Link(server.url, None), Transfer.nccl)
        for _ in range(2):
            wire.send(Weights(TENSORS), time.monotonic() + 20)
    (group,) = groups
    received = nccl.NCCLWeightTransferInitInfo(**server.bodies["/init_weight_transfer_engine"]["init_info"])
    assert (received.rank_offset, received.world_size, received.packed) == (1, 3, True)
    assert (received.master_address, received.master_port) == (group.master_address, group.master_port)
    update = nccl.NCCLWeightTransferUpdateInfo(**server.bodies["/update_weights"]["update_info"])
    assert (update.names, update.shapes) == (["b", "a"], [[2, 3], [4]])
    assert [getattr(torch, name) for name in update.dtype_names] == [torch.bfloat16, torch.float32]
    assert [name for name, _ in sent] == ["b", "a"] * 2
    assert all(torch.equal(value, TENSORS[name]) for name, value in sent)
    assert server.calls.count("/init_weight_transfer_engine") == 1
    assert not [one for one in threading.enumerate() if one.name == "groundrl-transfer"]
