"""A real server: its log-probs are the learner's, and a run goes on when it is killed."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import train
from tests.cli import make_cli
from tests.tiny import ask, varied_contexts
from tests.vllm.test_vllm_engine import GREEDY, WARM, check_choices, gap, requests, texts, trained

from groundrl.config.compose import compose_run
from groundrl.errors import EngineError
from groundrl.models.family import QWEN25_VL
from groundrl.rollout.engines.base import Given, Sampling
from groundrl.rollout.engines.hf_engine import HFEngine
from groundrl.rollout.engines.vllm_server_engine import VllmServerEngine

WORDS = ["scale=tiny", "rollout/engine=vllm_server", "rollout.engine.max_model_len=512"]


@pytest.fixture(scope="module")
def only_server(loaded_policy) -> Iterator[Any]:
    """One server for all tests here; it takes most of a minute to start."""
    engine: Any = compose_run(WORDS).rollout.engine.build(loaded_policy.model, loaded_policy.processor)
    yield engine
    engine.close()


@pytest.fixture
def server(only_server, loaded_policy) -> Iterator[Any]:
    """The engine with the shipped weights, given back with them."""
    yield only_server
    only_server.sync_weights(loaded_policy.model)


@pytest.mark.parametrize("temperature", [1.0, 0.7])
def test_log_probs_are_the_learners(server, tiny_policy, temperature) -> None:
    """Prompts of unequal length with pictures of unequal size, two pictures, none."""
    contexts = varied_contexts(tiny_policy.processor)
    made = server.generate(requests(contexts), Sampling(temperature=temperature, max_new_tokens=24))
    assert gap(tiny_policy.model, tiny_policy.processor, contexts, made, temperature) < 1e-4
    assert gap(tiny_policy.model, tiny_policy.processor, contexts, made, temperature + 0.5) > 0.05


def test_answers_are_those_of_the_engine_in_the_process(server, engine, tiny_policy) -> None:
    """The same seeds draw the same tokens, whatever else is in the batch; scores agree."""
    contexts = varied_contexts(tiny_policy.processor)
    seeds = (3, 2**64 - 1, 4)
    hot = Sampling(temperature=1.5, max_new_tokens=16)
    inside, outside = (
        engine.generate(requests(contexts, seeds), hot),
        server.generate(requests(contexts, seeds), hot),
    )
    assert texts(outside) == texts(inside)
    assert texts(server.generate(requests(contexts[::-1], seeds), hot))[::-1] == texts(inside)
    rng = np.random.default_rng(0)
    given = [
        Given(prompt_ids=c.ids, images=c.images, completion_ids=rng.integers(0, 590, size=5 + n))
        for n, c in enumerate(contexts)
    ]
    for ours, theirs in zip(engine.score(given), server.score(given), strict=True):
        np.testing.assert_allclose(theirs, ours, atol=1e-4)


def test_pushed_weights_are_the_learners(server, fresh_policy) -> None:
    """Adapters included; a prompt longer than the blocks of 128 tokens that are cached is among them."""
    from groundrl.models.config import LoraConfig
    from groundrl.models.lora import inject

    model, processor = fresh_policy.model, fresh_policy.processor
    contexts = [*varied_contexts(processor), ask(processor, "red circle " * 100)]
    before = server.generate(requests(contexts), WARM)
    inject(trained(fresh_policy).model, QWEN25_VL, LoraConfig(rank=4, alpha=8, dropout=0.0))
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for name, value in model.named_parameters():
            if "lora_B" in name:
                value.copy_(torch.randn(value.shape, generator=generator) * 0.05)
    assert gap(model, processor, contexts, before, 1.0) > 0.1
    server.sync_weights(model)
    made = server.generate(requests(contexts), WARM)
    assert gap(model, processor, contexts, made, 1.0) < 1e-4
    plain = HFEngine(model, processor, max_batch=64)
    assert texts(server.generate(requests(contexts), GREEDY)) == texts(
        plain.generate(requests(contexts), GREEDY)
    )


def test_placeholders_are_never_drawn_though_the_model_wants_them(server, fresh_policy) -> None:
    """As in test_vllm_engine.py: the banned tokens would be drawn nearly always."""
    processor = fresh_policy.processor
    with torch.no_grad():
        head = fresh_policy.model.lm_head.weight
        head[list(processor.banned_ids)] = 3 * head.abs().amax(0) * head.mean(0).sign()
    contexts = varied_contexts(processor)
    server.sync_weights(fresh_policy.model)
    made = server.generate(requests(contexts, tuple(range(8))), replace(WARM, temperature=2.0))
    drawn = np.concatenate([one.ids for row in made for one in row])
    assert len(drawn) > 300
    assert not np.isin(drawn, processor.banned_ids).any()
    assert gap(fresh_policy.model, processor, contexts, made, 2.0) < 1e-4


def test_a_call_that_takes_too_long_leaves_the_server_usable(server, tiny_policy, monkeypatch) -> None:
    """Its requests are ended with their connections, so that the next push finds an idle server."""
    contexts = varied_contexts(tiny_policy.processor)
    monkeypatch.setattr(server, "config", replace(server.config, timeout_s=0.2))
    with pytest.raises(EngineError, match=r"vllm_server, rank 0: generate took longer than 0\.2 s with"):
        server.generate(requests(contexts, tuple(range(64))), replace(WARM, max_new_tokens=256))
    monkeypatch.undo()
    server.sync_weights(tiny_policy.model)
    made = server.generate(requests(contexts), GREEDY)
    assert gap(tiny_policy.model, tiny_policy.processor, contexts, made, 1.0) < 1e-4


def test_a_run_goes_on_when_its_server_is_killed(only_server, tmp_path, monkeypatch, capsys) -> None:
    """Killed after the push that follows the first step, which the new server must be given again. The run,
    its evaluations and its references share the server of this module."""
    cli = make_cli(monkeypatch, capsys)
    plain, killed, fleets = VllmServerEngine.sync_weights, [], set()

    def push(engine: Any, model: Any) -> None:
        plain(engine, model)
        fleets.add(id(engine.fleet))
        if engine._pushes == 2:
            killed.append(only_server.fleet.members[0].process.pid)
            os.kill(killed[0], signal.SIGKILL)

    monkeypatch.setattr(VllmServerEngine, "sync_weights", push)
    words = [*WORDS, "algorithm.num_steps=2", "eval.samples=4", "eval.every_samples=2"]
    done = cli(*words, "eval.resamples=100", f"paths.root={tmp_path}", job=train.job, ready=train.ready)
    assert done.code == 0, done.err
    (file,) = Path(tmp_path).rglob("result.json")
    result = json.loads(file.read_text("utf-8"))
    assert (result["status"], result["steps"]) == ("finished", 2)
    assert len(killed) == 1
    assert only_server.fleet.members[0].process.pid != killed[0]
    assert fleets == {id(only_server.fleet)}
    lines = [json.loads(line) for line in (file.parent / "metrics.jsonl").read_text("utf-8").splitlines()]
    gaps = [line["metrics"]["learner/mismatch_max"] for line in lines if line["kind"] == "train"]
    assert len(gaps) == 2
    assert max(gaps) < 1e-4


def test_a_batch_drawn_beside_the_learner_is_the_one_drawn_before_it(
    only_server, tmp_path, monkeypatch, capsys
) -> None:
    """The same lag one after the other, to the bit of every rollout (a real engine draws by seed)."""
    cli = make_cli(monkeypatch, capsys)
    words = [*WORDS, "debug=smoke", "rollout.max_lag=1", "eval.samples=2", "eval.resamples=100"]
    stored: list[list[dict[str, Any]]] = []
    for name in ("beside", "after"):
        folder = tmp_path / name
        done = cli(*words, f"paths.output_dir={folder}", job=train.job, ready=train.ready)
        assert done.code == 0, done.err
        stored.append([json.loads(line) for line in (folder / "rollouts.jsonl").read_text().splitlines()])
        told = (folder / "metrics.jsonl").read_text("utf-8").count("perf/rollout_hidden_s")
        assert told == (3 if name == "beside" else 0)
        monkeypatch.setattr(VllmServerEngine, "concurrent", False)
    beside, after = ([(one["sample_id"], one["text"]) for one in rows] for rows in stored)
    assert beside == after
    assert len(beside) == 4 * 2 * 4


def test_a_completion_can_be_held_to_texts(server, tiny_policy) -> None:
    contexts = varied_contexts(tiny_policy.processor)
    made = server.generate(requests(contexts), replace(WARM, choices=("<YES>", "<NO>")))
    check_choices(made, tiny_policy.processor)
