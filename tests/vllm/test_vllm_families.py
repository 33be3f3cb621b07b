"""Every family in vLLM and in the learner is one policy: pictures, tokens, log-probs, weights pushed.

On a CPU vLLM computes the recurrent layers of Qwen3.5 in bfloat16 only: it runs in that, and agrees with the
float32 learner as far as bfloat16 goes.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch
from tests.tiny import ask, varied_contexts
from tests.unit.models.tiny_families import build
from tests.vllm.test_vllm_engine import GREEDY, WARM, gap, requests, texts, trained

from groundrl.config.compose import compose_run
from groundrl.models.config import ModelConfig
from groundrl.models.family import FAMILIES
from groundrl.models.forward import Row, completion_logits, pack
from groundrl.models.load import load_policy
from groundrl.rollout.engines.base import Given
from groundrl.rollout.engines.hf_engine import HFEngine

if TYPE_CHECKING:
    from groundrl.models.load import Policy
    from groundrl.rollout.engines.vllm_engine import VllmEngine

WORDS = ["scale=tiny", "rollout/engine=vllm", "rollout.engine.max_model_len=512"]
WORDS.append("rollout.engine.kv_cache_mib=64")
CLOSE = {"qwen3_5": 0.3}
"""Largest difference from the learner's log-probs; 1e-4 where both are float32. bfloat16 keeps 8 bits, and
the instances' log-probs go down to -30."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """An engine and the policy whose weights it has."""

    policy: Policy
    engine: VllmEngine
    close: float


def made(model_type: str, folder: Path, *words: str) -> tuple[Policy, VllmEngine]:
    build(model_type, folder)
    policy = load_policy(ModelConfig(path=str(folder)))
    policy.model.eval()
    engine: Any = compose_run([*WORDS, *words]).rollout.engine.build(policy.model, policy.processor)
    return policy, engine


@pytest.fixture(scope="module", params=sorted(FAMILIES))
def pair(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    words = ["rollout.engine.precision=bfloat16"] if FAMILIES[request.param].recurrent else []
    policy, engine = made(request.param, tmp_path_factory.mktemp("vllm") / request.param, *words)
    yield Pair(policy=policy, engine=engine, close=CLOSE.get(request.param, 1e-4))
    engine.close()


def test_log_probs_are_the_learners(pair: Pair) -> None:
    """Prompts of unequal length with pictures of unequal size (InternVL: of unequal tiles), two, none."""
    model, processor = pair.policy.model, pair.policy.processor
    contexts = varied_contexts(processor)
    drawn = pair.engine.generate(requests(contexts), WARM)
    assert gap(model, processor, contexts, drawn, 1.0) < pair.close
    assert not np.isin(np.concatenate([one.ids for row in drawn for one in row]), processor.banned_ids).any()
    # the same words about another picture: neither tokens nor log-probs fit
    pictures = [ask(processor, "red circle", [(112, 112)], seed) for seed in (1, 2)]
    assert pictures[0].ids.tolist() == pictures[1].ids.tolist()
    one, other = pair.engine.generate(requests(pictures), WARM)
    assert gap(model, processor, pictures, [one, other], 1.0) < pair.close
    assert gap(model, processor, pictures, [other, one], 1.0) > 2 * pair.close


def test_greedy_is_the_hf_engines_greedy(pair: Pair) -> None:
    model, processor = pair.policy.model, pair.policy.processor
    contexts = varied_contexts(processor)
    drawn = pair.engine.generate(requests(contexts, (0,)), GREEDY)
    assert gap(model, processor, contexts, drawn, 1.0) < pair.close
    if not pair.policy.family.recurrent:
        ours = HFEngine(model, processor, max_batch=64)
        assert texts(drawn) == texts(ours.generate(requests(contexts, (0,)), GREEDY))
    # to bfloat16 two words may be equally good: no word is better by more than both may be off
    rows = [
        Row(prompt=c.ids, images=c.images, completion=row[0].ids)
        for c, row in zip(contexts, drawn, strict=True)
    ]
    packed = pack(rows, model, pad_id=processor.pad_id, device=torch.device("cpu"))
    with torch.no_grad():
        logits = completion_logits(model, packed)[packed.target_mask]
    logits[:, list(processor.banned_ids)] = float("-inf")
    chosen = logits.gather(1, packed.targets[packed.target_mask][:, None])[:, 0]
    assert float((logits.amax(1) - chosen).max()) < 2 * pair.close


def test_score_is_the_hf_engines(pair: Pair) -> None:
    contexts = varied_contexts(pair.policy.processor)
    rng = np.random.default_rng(0)
    given = [
        Given(prompt_ids=c.ids, images=c.images, completion_ids=rng.integers(0, 590, size=5 + n))
        for n, c in enumerate(contexts)
    ]
    plain = HFEngine(pair.policy.model, pair.policy.processor, max_batch=2).score(given)
    for ours, theirs in zip(plain, pair.engine.score(given), strict=True):
        np.testing.assert_allclose(theirs, ours, rtol=0, atol=pair.close)


def test_pushed_weights_are_the_learners(pair: Pair) -> None:
    policy = replace(pair.policy, model=copy.deepcopy(pair.policy.model))
    contexts = varied_contexts(policy.processor)
    before = pair.engine.generate(requests(contexts), WARM)
    model = trained(policy).model
    assert gap(model, policy.processor, contexts, before, 1.0) > 3 * pair.close
    pair.engine.sync_weights(model)
    after = pair.engine.generate(requests(contexts), WARM)
    assert gap(model, policy.processor, contexts, after, 1.0) < pair.close
    pair.engine.sync_weights(pair.policy.model)
    assert texts(pair.engine.generate(requests(contexts), WARM)) == texts(before)


@pytest.mark.skipif(torch.cuda.is_available(), reason="about machines without a GPU")
def test_recurrent_layers_in_float32_are_refused_by_vllm(tmp_path: Path) -> None:
    policy, engine = made("qwen3_5", tmp_path / "qwen3_5")
    with pytest.raises(AssertionError, match="CPU GDN attention requires BF16"):
        engine.generate(requests(varied_contexts(policy.processor)), WARM)
    engine.close()
