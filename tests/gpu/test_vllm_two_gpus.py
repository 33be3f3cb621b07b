"""Weights from the learner's GPU to a server on another one, by NCCL: the learner on the first, the server on
the second device."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import torch
import train
from tests.cli import make_cli
from tests.tiny import scorer, varied_contexts

from groundrl.config.compose import compose_run
from groundrl.models.forward import Row
from groundrl.rollout.engines.base import Request, Sampling
from groundrl.rollout.engines.vllm_server import Transfer

WORDS = ["scale=tiny", "rollout/engine=vllm_server", "rollout.engine.devices=['1']"]


def test_pushed_weights_are_the_learners(fresh_policy) -> None:
    """`auto` is NCCL here; the second push, over the same group, brings changed weights."""
    model, processor = fresh_policy.model.to("cuda:0"), fresh_policy.processor
    words = [*WORDS, "rollout.engine.max_model_len=512"]
    engine: Any = compose_run(words).rollout.engine.build(model, processor)
    assert engine.transfer is Transfer.nccl
    contexts = varied_contexts(processor)
    requests = [Request(prompt_ids=c.ids, images=c.images, seeds=(1, 2)) for c in contexts]
    for _ in range(2):
        made = engine.generate(requests, Sampling(temperature=1.0, max_new_tokens=24))
        pairs = [(c, one) for c, row in zip(contexts, made, strict=True) for one in row]
        rows = [Row(prompt=c.ids, images=c.images, completion=one.ids) for c, one in pairs]
        with torch.no_grad():
            scores = scorer(processor)(model, rows).logprobs.cpu().numpy()
        for known, (_, one) in zip(scores, pairs, strict=True):
            np.testing.assert_allclose(known[: len(one.ids)], one.logprobs, atol=1e-2)
        with torch.no_grad():
            for value in model.parameters():
                value.mul_(1.05)
        engine.sync_weights(model)
    engine.close()


def test_a_whole_run_that_draws_ahead(tmp_path: Path, monkeypatch, capsys) -> None:
    cli = make_cli(monkeypatch, capsys)
    words = [*WORDS, "debug=smoke", "rollout.max_lag=1", "model.device=cuda", "eval.samples=4"]
    done = cli(*words, f"paths.output_dir={tmp_path}/run", job=train.job, ready=train.ready)
    assert done.code == 0, done.err
    lines = (tmp_path / "run" / "metrics.jsonl").read_text("utf-8").splitlines()
    steps = [json.loads(line)["metrics"] for line in lines if json.loads(line)["kind"] == "train"]
    assert len([step for step in steps if "perf/rollout_hidden_s" in step]) == len(steps) - 1
    assert max(step["learner/mismatch_max"] for step in steps) < 0.1
