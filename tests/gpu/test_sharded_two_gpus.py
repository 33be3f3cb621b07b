"""FSDP2 over NCCL: two processes on two GPUs give the numbers of one."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.integration.test_processes import WORDS, furthest, run, steps


def test_two_gpus_give_the_numbers_of_one(tmp_path: Path) -> None:
    """float32; both runs sample the same batches as long as no draw lies on a rounding."""
    words = (*WORDS, "model.device=cuda", "algorithm.num_steps=2")
    run(*words, f"paths.output_dir={tmp_path}/one", processes=1)
    run(*words, f"paths.output_dir={tmp_path}/two")
    one, two = steps(tmp_path / "one")[0], steps(tmp_path / "two")[0]
    for name in ("reward/total", "learner/grad_norm", "learner/rows"):
        assert two[name] == pytest.approx(one[name], rel=1e-2), name
    models = [tmp_path / name / "checkpoints/step-000002/model" for name in ("one", "two")]
    assert furthest(*models) < 1e-2
