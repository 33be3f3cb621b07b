"""A whole run through train.py with vLLM, and what the engine leaves alone in its process."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
import train
from tests.cli import make_cli

from groundrl.config.compose import compose_run


def test_a_whole_run(tmp_path: Path, monkeypatch, capsys, loaded_policy) -> None:
    """Two steps, the evaluations and the references' own engines; the loss of an on-policy step is 0."""
    cli = make_cli(monkeypatch, capsys)
    words = ["rollout/engine=vllm", "algorithm.num_steps=2", "eval.samples=4", "eval.every_samples=2"]
    done = cli(*words, "eval.resamples=100", f"paths.root={tmp_path}", job=train.job, ready=train.ready)
    assert done.code == 0, done.err
    (file,) = tmp_path.rglob("result.json")
    result = json.loads(file.read_text("utf-8"))
    assert (result["status"], result["steps"]) == ("finished", 2)
    assert "vllm" in result["run"]["versions"]
    assert {"before", "after", "difference", "references"} <= set(result["eval"])
    lines = [json.loads(line) for line in (file.parent / "rollouts.jsonl").read_text("utf-8").splitlines()]
    assert len(lines) == 2 * 8 * 8


def test_the_runs_generators_are_left_alone(loaded_policy) -> None:
    torch.manual_seed(5)
    np.random.seed(5)
    wanted = torch.rand(3).tolist(), np.random.rand(3).tolist()
    torch.manual_seed(5)
    np.random.seed(5)
    config = compose_run(["rollout/engine=vllm"]).rollout.engine
    engine = config.build(loaded_policy.model, loaded_policy.processor)
    assert (torch.rand(3).tolist(), np.random.rand(3).tolist()) == wanted
    engine.close()
    engine.close()  # closing twice is fine


@pytest.mark.skipif(torch.cuda.is_available(), reason="about machines without a GPU")
@pytest.mark.parametrize(
    ("word", "key"),
    [
        ("chunked_prefill=true", "chunked_prefill"),
        ("sleep=true", "sleep"),
        ("tensor_parallel_size=2", "tensor_parallel_size"),
    ],
)
def test_settings_that_a_cpu_cannot_follow_are_refused(loaded_policy, word, key) -> None:
    from groundrl.errors import ConfigError

    config = compose_run(["rollout/engine=vllm", f"rollout.engine.{word}"]).rollout.engine
    with pytest.raises(ConfigError, match=f"^{key}: "):
        config.build(loaded_policy.model, loaded_policy.processor)
