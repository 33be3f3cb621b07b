"""Tests of this folder run the real things on CUDA: `pytest -m gpu tests/gpu`. None has been run yet."""

from __future__ import annotations

from pathlib import Path

import pytest

HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skips what this machine cannot run; files named `..._two_gpus` ask for two devices."""
    own = [item for item in items if HERE in item.path.parents]
    if not own:
        return
    import torch

    from groundrl.rollout.engines.vllm import installed

    found = torch.cuda.device_count() if torch.cuda.is_available() else 0
    for item in own:
        item.add_marker(pytest.mark.gpu)
        wanted = item.path.stem.endswith("two_gpus") + 1
        if found < wanted:
            item.add_marker(pytest.mark.skip(reason=f"needs {wanted} CUDA devices, found {found}"))
        elif "vllm" in item.path.stem and not installed():
            item.add_marker(pytest.mark.skip(reason="needs vLLM for CUDA in this environment"))
