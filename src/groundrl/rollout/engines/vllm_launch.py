"""Starting vLLM inside this process: its environment, its folder, its settings."""

from __future__ import annotations

import contextlib
import json
import os
import random
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import save_file

from groundrl.models.family import Family
from groundrl.models.processor import Processor
from groundrl.rollout.engines.vllm import EnginePrecision, VllmConfig

ANYWHERE = {
    "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
    "VLLM_LOGGING_LEVEL": "ERROR",
    "VLLM_NO_USAGE_STATS": "1",
}
"""The engine lives in this process, so that weights are handed over without a copy."""

ON_CPU = {"VLLM_CPU_OMP_THREADS_BIND": "nobind", "TORCH_COMPILE_DISABLE": "1"}
"""No thread is pinned; compiling takes longer than the tiny model's whole run."""


def set_environment(*, cuda: bool) -> None:
    """What vLLM reads when it is imported; a value that is already set stays."""
    for name, value in (ANYWHERE if cuda else ANYWHERE | ON_CPU).items():
        os.environ.setdefault(name, value)
    if not cuda:
        import torch._dynamo.config as dynamo

        dynamo.disable = True


def write_folder(folder: Path, model: Any, processor: Processor) -> None:
    """Configuration, tokenizer and image processor with this run's pixel limits; no weights. For tiles also
    how many tokens one is, which vLLM takes from the processor's own file."""
    folder.mkdir(parents=True, exist_ok=True)
    model.config.save_pretrained(folder)
    processor.tokenizer.save_pretrained(folder)
    processor.image_processor.save_pretrained(folder)
    if processor.family.tiled:
        described = {
            "processor_class": "InternVLProcessor",
            "image_seq_length": int(model.config.image_seq_length),
        }
        (folder / "processor_config.json").write_text(json.dumps(described), encoding="utf-8")


def link_weights(folder: Path, model: Any) -> None:
    """Links to the weight files that the policy started from. (Starting vLLM with random weights instead
    would leave its buffers random: pushing weights sets parameters only.)"""
    for file in Path(model.name_or_path).resolve().glob("*.safetensors*"):
        (folder / file.name).symlink_to(file)


def scratch_folder() -> tempfile.TemporaryDirectory[str]:
    """A folder in shared memory where there is one: weights for other processes pass through it."""
    shared = Path("/dev/shm")
    return tempfile.TemporaryDirectory(prefix="groundrl-vllm-", dir=shared if shared.is_dir() else None)


def write_weights(folder: Path, weights: dict[str, torch.Tensor]) -> None:
    """Into one file; it cannot hold one tensor under two names, so a second one is a copy."""
    seen: set[int] = set()
    kept: dict[str, torch.Tensor] = {}
    for name, value in weights.items():
        kept[name] = value.clone() if value.data_ptr() in seen else value.contiguous()
        seen.add(value.data_ptr())
    save_file(kept, folder / "model.safetensors", metadata={"format": "pt"})


def engine_settings(folder: Path, model: Any, config: VllmConfig, family: Family) -> dict[str, Any]:
    """vLLM's settings of an engine on the folder, by vLLM's names."""
    precision = str(next(model.parameters()).dtype).removeprefix("torch.")
    if config.precision is not EnginePrecision.policy:
        precision = str(config.precision.value)
    settings: dict[str, Any] = {
        "model": str(folder),
        "load_format": "safetensors",
        "generation_config": "vllm",
        "dtype": precision,
        "max_model_len": config.max_model_len,
        "max_num_batched_tokens": config.max_batched_tokens,
        "max_num_seqs": config.max_batch,
        "limit_mm_per_prompt": {"image": config.max_images, "video": 0},
        "gpu_memory_utilization": config.gpu_memory_utilization,
        "tensor_parallel_size": config.tensor_parallel_size,
        "enforce_eager": config.enforce_eager,
        # vLLM keeps recurrent states only at the ends of chunks
        "enable_prefix_caching": config.prefix_caching and (config.chunked_prefill or not family.recurrent),
        "enable_chunked_prefill": config.chunked_prefill,
        "enable_sleep_mode": config.sleep,
        "logprobs_mode": "processed_logprobs",
        "seed": 0,
        "disable_log_stats": True,
        "use_tqdm_on_load": False,
    }
    if family.tiled:
        # by Pillow, as ours; torchvision resizes otherwise (the tiny model's log-probs were 5e-3 apart)
        settings["mm_processor_kwargs"] = {"use_fast": False}
    if config.kv_cache_mib is not None:
        settings["kv_cache_memory_bytes"] = config.kv_cache_mib * 2**20
    return settings


def start(folder: Path, model: Any, config: VllmConfig, family: Family) -> Any:
    """A vLLM `LLM` on the folder."""
    from vllm import LLM  # pyright: ignore[reportMissingImports]  (the second environment has it)

    settings = engine_settings(folder, model, config, family)
    with unchanged_randomness():
        return LLM(**settings)


def sampling_params(*, choices: Sequence[str] = (), **settings: Any) -> Any:
    """vLLM's SamplingParams; nothing is turned into text. choices: texts of which one is to be written."""
    from vllm.sampling_params import (  # pyright: ignore[reportMissingImports]
        SamplingParams,
        StructuredOutputsParams,
    )

    if choices:
        settings["structured_outputs"] = StructuredOutputsParams(choice=list(choices))
    return SamplingParams(detokenize=False, **settings)


@contextlib.contextmanager
def unchanged_randomness() -> Iterator[None]:
    """vLLM seeds the generators of the whole process; the run's own states are put back."""
    python, numpy, cpu = random.getstate(), np.random.get_state(), torch.get_rng_state()
    gpu = torch.cuda.get_rng_state_all() if torch.cuda.is_available() else []
    try:
        yield
    finally:
        random.setstate(python)
        np.random.set_state(numpy)
        torch.set_rng_state(cpu)
        if gpu:
            torch.cuda.set_rng_state_all(gpu)
