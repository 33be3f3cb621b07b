"""The hf engine and the learner on one CUDA device."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
import train
from tests.cli import make_cli
from tests.tiny import experience, learner, scorer, varied_contexts

from groundrl.learner.config import OptimConfig, SharedPrefix
from groundrl.models.forward import Row
from groundrl.rollout.engines.base import Request, Sampling
from groundrl.rollout.engines.hf_engine import HFEngine

WARM = Sampling(temperature=1.0, max_new_tokens=24)


def test_the_engine_draws_what_the_learner_scores(fresh_policy) -> None:
    """float32: prompts of unequal length with pictures of unequal size, two pictures, none."""
    model, processor = fresh_policy.model.to("cuda"), fresh_policy.processor
    contexts = varied_contexts(processor)
    requests = [Request(prompt_ids=c.ids, images=c.images, seeds=(1, 2)) for c in contexts]
    made = HFEngine(model, processor, max_batch=64).generate(requests, WARM)
    pairs = [(c, one) for c, row in zip(contexts, made, strict=True) for one in row]
    rows = [Row(prompt=c.ids, images=c.images, completion=one.ids) for c, one in pairs]
    with torch.no_grad():
        scores = scorer(processor)(model, rows).logprobs.cpu().numpy()
    for known, (_, one) in zip(scores, pairs, strict=True):
        np.testing.assert_allclose(known[: len(one.ids)], one.logprobs, atol=1e-3)


def test_greedy_answers_are_those_of_the_cpu(fresh_policy) -> None:
    """The likeliest first token of each prompt; later ones may part where two are nearly as likely."""
    processor, contexts = fresh_policy.processor, varied_contexts(fresh_policy.processor)
    requests = [Request(prompt_ids=c.ids, images=c.images, seeds=(0,)) for c in contexts]
    first = Sampling(temperature=0.0, max_new_tokens=1)
    engine = HFEngine(fresh_policy.model, processor, max_batch=64)
    there = engine.generate(requests, first)
    fresh_policy.model.to("cuda")
    here = engine.generate(requests, first)
    assert [row[0].ids.tolist() for row in here] == [row[0].ids.tolist() for row in there]


@pytest.mark.parametrize("attention", ["sdpa", "flash_attention_2"])
def test_a_bfloat16_step_with_shared_prefixes_is_one_with_padded_rows(fresh_policy, attention) -> None:
    """Prompts of several rows go through flash attention over sequences of unequal length. bfloat16 keeps 8
    bits, so losses agree to hundredths and weights move the same way."""
    if attention == "flash_attention_2":
        pytest.importorskip("flash_attn")
    model, processor = fresh_policy.model.to("cuda", torch.bfloat16), fresh_policy.processor
    model.set_attn_implementation(attention)
    start = {name: value.detach().clone() for name, value in model.named_parameters()}
    contexts = varied_contexts(processor)
    rows = experience(
        processor,
        contexts,
        lengths=[5, 9, 3, 7, 12, 6, 4, 8, 10, 11],
        advantages=[1, -1, 0.5, -0.5, 1, -1, 0.3, -0.3, 0.8, -0.8],
    )
    moves: list[torch.Tensor] = []
    losses: list[float] = []
    for mode in (SharedPrefix.auto, SharedPrefix.off):
        with torch.no_grad():
            for name, value in model.named_parameters():
                value.copy_(start[name])
        made = learner(model, processor, lr=1e-2, optim=OptimConfig(shared_prefix=mode))
        made.scorer = made.scorer.__class__(
            temperature=1.0, banned_ids=processor.banned_ids, pad_id=processor.pad_id, shared_prefix=mode
        )
        losses.append(made.step(rows)["learner/loss"])
        moves.append(
            torch.cat([(value - start[name]).float().flatten() for name, value in model.named_parameters()])
        )
    assert losses[0] == pytest.approx(losses[1], abs=0.05)
    assert float(moves[0].norm()) > 0
    assert float(torch.nn.functional.cosine_similarity(*moves, dim=0)) > 0.9


def test_a_whole_run(tmp_path: Path, monkeypatch, capsys) -> None:
    cli = make_cli(monkeypatch, capsys)
    words = ["debug=smoke", "model.device=cuda", "model.precision=bfloat16"]
    done = cli(*words, f"paths.output_dir={tmp_path}/run", job=train.job, ready=train.ready)
    assert done.code == 0, done.err
    result = json.loads((tmp_path / "run" / "result.json").read_text("utf-8"))
    assert result["status"] == "finished"
    assert "cuda" in result["run"]["device"]
