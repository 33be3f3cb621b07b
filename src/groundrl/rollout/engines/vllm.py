"""`rollout/engine=vllm`: vLLM in the trainer's own process, on the policy's weights."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from importlib.util import find_spec
from typing import Any, ClassVar

from groundrl.config.registry import register
from groundrl.errors import ConfigError
from groundrl.rollout.engines.base import Engine, EngineConfig


def installed() -> bool:
    """Whether this environment has vLLM; a folder of that name on the path is not it."""
    spec = find_spec("vllm")
    return spec is not None and spec.origin is not None


class EnginePrecision(StrEnum):
    """policy: that of the policy's weights."""

    policy = "policy"
    float32 = "float32"
    bfloat16 = "bfloat16"


@register("rollout/engine", "vllm")
@dataclass(kw_only=True, slots=True)
class VllmConfig(EngineConfig):
    """Settings of the vLLM engine.

    precision               of the engine's weights and cache
    max_model_len           longest prompt and completion together, in tokens
    max_batched_tokens      tokens computed at once; without chunked prefill at least max_model_len
    max_images              most images in one prompt
    kv_cache_mib            size of the key-value cache in MiB (null: what gpu_memory_utilization leaves)
    gpu_memory_utilization  share of each GPU that the engine may take; the learner needs the rest
    tensor_parallel_size    GPUs that share the model
    enforce_eager           no compilation and no CUDA graphs
    prefix_caching          completions of one prompt share its computation; with layers that carry a
                            recurrent state only together with chunked_prefill
    chunked_prefill         long prompts in pieces; crashes with seeded sampling on a CPU, so refused there
    sleep                   give the memory to the learner while it learns (CUDA only)
    timeout_s               seconds that one call may take
    """

    scores_untruncated: ClassVar[bool] = False
    chooses: ClassVar[bool] = True

    precision: EnginePrecision = EnginePrecision.policy
    max_model_len: int = 4096
    max_batched_tokens: int = 16384
    max_images: int = 4
    kv_cache_mib: int | None = 256
    gpu_memory_utilization: float = 0.4
    tensor_parallel_size: int = 1
    enforce_eager: bool = True
    prefix_caching: bool = True
    chunked_prefill: bool = False
    sleep: bool = False
    timeout_s: float = 1800.0

    def __post_init__(self) -> None:
        EngineConfig.__post_init__(self)
        for name in ("max_model_len", "max_batched_tokens", "max_images", "tensor_parallel_size"):
            if getattr(self, name) < 1:
                raise ConfigError(name, "must be at least 1", got=getattr(self, name), todo="raise it")
        if not self.chunked_prefill and self.max_batched_tokens < self.max_model_len:
            raise ConfigError(
                "max_batched_tokens",
                f"must be at least max_model_len = {self.max_model_len} without chunked prefill",
                got=self.max_batched_tokens,
                todo="raise it",
            )
        if self.kv_cache_mib is not None and self.kv_cache_mib < 1:
            raise ConfigError("kv_cache_mib", "must be at least 1", got=self.kv_cache_mib, todo="e.g. 256")
        if not 0 < self.gpu_memory_utilization <= 1:
            raise ConfigError(
                "gpu_memory_utilization",
                "must lie in (0, 1]",
                got=self.gpu_memory_utilization,
                todo="use e.g. 0.4",
            )
        if self.timeout_s <= 0:
            raise ConfigError("timeout_s", "must be above 0", got=self.timeout_s, todo="use e.g. 1800")

    def check_machine(self, *, cuda: bool) -> None:
        """Raise ConfigError for settings that cannot work on a machine without (or with) CUDA."""
        if cuda:
            return
        if self.chunked_prefill:
            raise ConfigError(
                "chunked_prefill",
                "seeded sampling crashes on a CPU when a prompt is computed in pieces",
                got=True,
                todo="use false, and raise max_batched_tokens for long prompts",
            )
        if self.sleep:
            raise ConfigError("sleep", "needs a CUDA device", got=True, todo="use false")
        if self.tensor_parallel_size > 1:
            raise ConfigError(
                "tensor_parallel_size", "needs CUDA devices", got=self.tensor_parallel_size, todo="use 1"
            )

    def copy_parts(self, processes: int) -> int:
        return self.tensor_parallel_size

    def context_limit(self) -> int | None:
        return self.max_model_len

    def build(self, model: Any, processor: Any) -> Engine:
        if not installed():
            raise ConfigError(
                "rollout.engine",
                "vLLM is not installed in this environment",
                todo="run make setup-vllm and use .venv-vllm/bin/python, or rollout/engine=hf",
            )
        from groundrl.rollout.engines.vllm_engine import VllmEngine

        return VllmEngine(model, processor, self)
