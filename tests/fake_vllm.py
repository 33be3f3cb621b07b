"""A vLLM that keeps what it is given and never answers, for the base environment."""

from __future__ import annotations

import sys
import types
from importlib.machinery import ModuleSpec
from itertools import count
from typing import Any

import pytest

from groundrl.models.family import QWEN25_VL
from groundrl.rollout.engines.vllm import VllmConfig


class FakeLLM:
    """`LLM` and its `llm_engine` in one; calls are noted in `calls`."""

    def __init__(self, **settings: Any) -> None:
        self.settings = settings
        self.calls: list[str] = []
        self.llm_engine = self
        self.engine_core = self
        self.running: list[str] = []

    def enqueue(self, prompts: list[Any], params: list[Any], use_tqdm: bool) -> list[str]:
        self.running = [f"{number}-abc" for number in range(len(prompts))]
        return self.running

    def has_unfinished_requests(self) -> bool:
        return bool(self.running)

    def step(self) -> list[Any]:
        return []

    def abort_request(self, names: list[str], internal: bool) -> None:
        assert internal
        self.running = [name for name in self.running if name not in names]

    def reset_prefix_cache(self) -> bool:
        self.calls.append("reset_prefix_cache")
        return not self.running

    def collective_rpc(self, method: str, kwargs: dict[str, Any] | None = None) -> None:
        self.calls.append(method)
        if kwargs and "weights_iterator" in kwargs:
            self.pushed = dict(kwargs["weights_iterator"])

    def __getattr__(self, name: str) -> Any:
        return lambda *args, **keywords: self.calls.append(name)


def engine_of(config: VllmConfig, model: Any, patch: pytest.MonkeyPatch) -> Any:
    """A VllmEngine on a FakeLLM; time jumps a second with every look at the clock."""
    module = types.ModuleType("vllm")
    module.__spec__ = ModuleSpec("vllm", None, origin="here")
    module.__dict__["LLM"] = FakeLLM
    patch.setitem(sys.modules, "vllm", module)
    from groundrl.rollout.engines import vllm_engine

    patch.setattr(vllm_engine, "set_environment", lambda cuda: None)
    patch.setattr(vllm_engine, "write_folder", lambda folder, model, processor: None)
    patch.setattr(vllm_engine, "link_weights", lambda folder, model: None)
    patch.setattr(vllm_engine, "_ALIVE", [])
    patch.setattr(vllm_engine, "_CLOSED", [])
    clock = count()
    patch.setattr(vllm_engine.time, "monotonic", lambda: float(next(clock)))
    engine: Any = config.build(model, types.SimpleNamespace(family=QWEN25_VL))
    return engine
