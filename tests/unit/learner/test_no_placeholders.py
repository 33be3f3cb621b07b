"""A family without vision placeholders bans nothing; engine and learner still agree."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from groundrl.learner.logprobs import Scorer
from groundrl.models.forward import Row
from groundrl.models.load import Policy
from groundrl.rollout.engines.base import Request, Sampling
from groundrl.rollout.engines.hf_engine import HFEngine


def test_an_empty_ban_is_no_ban(tiny_policy: Policy, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tiny_policy.processor, "banned_ids", ())
    prompt = tiny_policy.processor.encode("red circle; blue square")
    engine = HFEngine(tiny_policy.model, tiny_policy.processor, max_batch=4)
    request = Request(prompt_ids=prompt, images=(), seeds=(1, 2))
    (completions,) = engine.generate([request], Sampling(temperature=1.0, max_new_tokens=5))
    rows = [Row(prompt=prompt, images=(), completion=completion.ids) for completion in completions]
    with torch.no_grad():
        scores = Scorer(temperature=1.0, banned_ids=(), pad_id=0)(tiny_policy.model, rows)
    for number, completion in enumerate(completions):
        learned = scores.logprobs[number, : len(completion.ids)].numpy()
        assert np.abs(learned - completion.logprobs).max() < 1e-4
