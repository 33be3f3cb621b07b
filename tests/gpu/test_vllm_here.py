"""vLLM in the learner's process on one GPU: sleeping and waking, and pushes in between."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from tests.tiny import scorer, varied_contexts

from groundrl.config.compose import compose_run
from groundrl.models.forward import Row
from groundrl.rollout.engines.base import Request, Sampling

WORDS = [
    "scale=tiny",
    "rollout/engine=vllm",
    "rollout.engine.sleep=true",
    "rollout.engine.max_model_len=512",
    "rollout.engine.gpu_memory_utilization=0.2",
]


def test_an_engine_sleeps_gives_memory_and_wakes_with_the_pushed_weights(fresh_policy) -> None:
    """Log-probs are the learner's before sleep, and the changed learner's after it."""
    model, processor = fresh_policy.model.to("cuda"), fresh_policy.processor
    contexts = varied_contexts(processor)
    requests = [Request(prompt_ids=c.ids, images=c.images, seeds=(1, 2)) for c in contexts]

    def gap(made: Any) -> float:
        pairs = [(c, one) for c, row in zip(contexts, made, strict=True) for one in row]
        rows = [Row(prompt=c.ids, images=c.images, completion=one.ids) for c, one in pairs]
        with torch.no_grad():
            scores = scorer(processor)(model, rows).logprobs.cpu().numpy()
        return max(
            float(np.abs(known[: len(one.ids)] - one.logprobs).max())
            for known, (_, one) in zip(scores, pairs, strict=True)
        )

    engine: Any = compose_run(WORDS).rollout.engine.build(model, processor)
    sampling = Sampling(temperature=1.0, max_new_tokens=24)
    before = engine.generate(requests, sampling)
    assert gap(before) < 1e-2
    awake = torch.cuda.mem_get_info()[0]
    engine.release()
    assert torch.cuda.mem_get_info()[0] > awake
    engine.release()
    with torch.no_grad():
        for value in model.parameters():
            value.mul_(1.05)
    assert gap(before) > 0.05
    engine.sync_weights(model)
    assert not engine.asleep
    assert gap(engine.generate(requests, sampling)) < 1e-2
    engine.release()
    assert gap(engine.generate(requests, sampling)) < 1e-2  # a call wakes it too
    engine.close()


@pytest.mark.parametrize("way", ["path", "ipc"])
def test_a_server_on_the_learners_gpu_has_the_learners_weights(fresh_policy, way) -> None:
    """Started by the run on the same device; a second push follows a change."""
    model, processor = fresh_policy.model.to("cuda"), fresh_policy.processor
    words = ["scale=tiny", "rollout/engine=vllm_server", f"rollout.engine.transfer={way}"]
    words += ["rollout.engine.max_model_len=512", "rollout.engine.gpu_memory_utilization=0.2"]
    engine: Any = compose_run(words).rollout.engine.build(model, processor)
    context = varied_contexts(processor)[0]
    request = Request(prompt_ids=context.ids, images=context.images, seeds=(1, 2))
    for _ in range(2):
        (made,) = engine.generate([request], Sampling(temperature=1.0, max_new_tokens=24))
        rows = [Row(prompt=context.ids, images=context.images, completion=one.ids) for one in made]
        with torch.no_grad():
            scores = scorer(processor)(model, rows).logprobs.cpu().numpy()
        for known, one in zip(scores, made, strict=True):
            np.testing.assert_allclose(known[: len(one.ids)], one.logprobs, atol=1e-2)
        with torch.no_grad():
            for value in model.parameters():
                value.mul_(1.05)
        engine.sync_weights(model)
    engine.close()
