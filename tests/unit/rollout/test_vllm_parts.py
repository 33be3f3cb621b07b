"""What surrounds vLLM, without vLLM: prompts, settings, refusals, and the order of calls around a push."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from tests.fake_vllm import engine_of
from tests.tiny import ask, scorer, varied_contexts

from groundrl.config.compose import compose_run
from groundrl.errors import ConfigError, EngineError
from groundrl.models.forward import Row
from groundrl.rollout.engines.base import Given
from groundrl.rollout.engines.hf_engine import HFEngine
from groundrl.rollout.engines.scripted import ScriptedEngine
from groundrl.rollout.engines.vllm import VllmConfig
from groundrl.rollout.engines.vllm_prompt import as_prompt, check_expanded, compact


def test_each_run_of_image_ids_becomes_one() -> None:
    ids = np.array([1, 9, 9, 9, 2, 9, 3, 9, 9])
    assert compact(ids, 9, 3) == [1, 9, 2, 9, 3, 9]
    assert compact(np.array([9, 9]), 9, 1) == [9]
    assert compact(np.array([1, 2, 2]), 9, 0) == [1, 2, 2]
    assert compact(np.zeros(0, dtype=np.int64), 9, 0) == []


@pytest.mark.parametrize("images", [0, 1, 3])
def test_runs_that_are_not_the_images_are_an_error(images) -> None:
    with pytest.raises(ValueError, match=f"2 runs of image tokens for {images} images"):
        compact(np.array([9, 9, 1, 9]), 9, images)


def test_a_prompt_has_its_pictures_in_order_and_text_alone_has_none(tiny_policy) -> None:
    processor = tiny_policy.processor
    context = ask(processor, "red circle", ((112, 112), (56, 84)))
    prompt = as_prompt(context.ids, context.images, processor)
    assert [image.size for image in prompt["multi_modal_data"]["image"]] == [(112, 112), (56, 84)]
    assert prompt["prompt_token_ids"].count(processor.image_id) == 2
    # 112 x 112 is 4 x 4 image tokens, 56 x 84 is 2 x 3; one of each is left
    assert len(prompt["prompt_token_ids"]) == len(context.ids) - 15 - 5
    plain = ask(processor, "red circle")
    assert as_prompt(plain.ids, (), processor) == {"prompt_token_ids": plain.ids.tolist()}


def test_tokens_that_the_learner_will_not_score_are_an_error() -> None:
    check_expanded(np.array([1, 2]), [1, 2])
    for other in ([1], [1, 3], [1, 2, 2]):
        with pytest.raises(ValueError, match="does not agree with ours"):
            check_expanded(np.array([1, 2]), other)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"max_batched_tokens": 4095}, "max_batched_tokens: must be at least max_model_len = 4096 without"),
        ({"max_model_len": 0}, "max_model_len: must be at least 1, got 0"),
        ({"kv_cache_mib": 0}, "kv_cache_mib: must be at least 1, got 0"),
        ({"gpu_memory_utilization": 1.5}, "gpu_memory_utilization: must lie in"),
        ({"timeout_s": 0.0}, "timeout_s: must be above 0"),
        ({"max_batch": 0}, "max_batch: must be at least 1"),
    ],
)
def test_settings_that_cannot_be_meant(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        VllmConfig(**changes)
    VllmConfig(max_batched_tokens=100, chunked_prefill=True)


def test_chunked_prefill_sleep_and_several_devices_need_cuda() -> None:
    for changes in ({"chunked_prefill": True}, {"sleep": True}, {"tensor_parallel_size": 2}):
        config = VllmConfig(**changes)
        config.check_machine(cuda=True)
        with pytest.raises(ConfigError, match=f"^{next(iter(changes))}: "):
            config.check_machine(cuda=False)


@pytest.mark.parametrize("word", ["rollout.top_k=5", "rollout.top_p=0.9"])
def test_truncation_that_the_engine_cannot_score_is_refused_before_the_run(word) -> None:
    key = word.partition("=")[0]
    with pytest.raises(ConfigError, match=rf"{key}: this engine gives log-probs of the truncated"):
        compose_run(["rollout/engine=vllm", word])
    compose_run([word])


def test_a_push_hands_over_every_weight_and_then_empties_all_three_caches(monkeypatch) -> None:
    model = torch.nn.Linear(2, 1)
    engine = engine_of(VllmConfig(timeout_s=3.0), model, monkeypatch)
    wanted = ["reload_weights", "reset_mm_cache", "reset_encoder_cache", "reset_prefix_cache"]
    assert engine.llm.calls == wanted
    assert set(engine.llm.pushed) == {"weight", "bias"}
    engine.llm.running = ["7-abc"]
    with pytest.raises(EngineError, match="prefix cache could not be emptied"):
        engine.sync_weights(model)
    engine.llm.running = []
    llm = engine.llm
    engine.close()
    engine.close()
    assert llm.calls[-2:] == ["shutdown", "shutdown"]  # the worker's, then the engine's own


def test_a_released_engine_sleeps_once_and_wakes_for_the_next_call(monkeypatch) -> None:
    """CUDA's order, on the fake: the machine check is passed over."""
    monkeypatch.setattr(VllmConfig, "check_machine", lambda self, cuda: None)
    engine = engine_of(VllmConfig(sleep=True, timeout_s=2.0), torch.nn.Linear(2, 1), monkeypatch)
    engine.llm.calls.clear()
    engine.release()
    engine.release()
    assert engine.llm.calls == ["sleep"]
    engine.sync_weights(torch.nn.Linear(2, 1))
    assert engine.llm.calls[1:3] == ["wake_up", "reload_weights"]
    engine.release()
    with pytest.raises(EngineError, match=r"generate took longer than 2 s with 0 of 1 requests done"):
        engine._complete([{}], [None], "generate")
    assert engine.llm.calls[-2:] == ["sleep", "wake_up"]
    assert engine.llm.running == []
    engine.close()


def test_plain_score_is_the_learners_at_temperature_one_with_nothing_banned(tiny_policy) -> None:
    processor = tiny_policy.processor
    contexts = varied_contexts(processor)
    rng = np.random.default_rng(1)
    rows = [
        Row(prompt=c.ids, images=c.images, completion=rng.integers(0, 590, size=3 + n))
        for n, c in enumerate(contexts)
    ]
    given = [Given(prompt_ids=r.prompt, images=r.images, completion_ids=r.completion) for r in rows]
    with torch.no_grad():
        whole = replace(scorer(processor), banned_ids=())(tiny_policy.model, rows).logprobs.numpy()
    found = HFEngine(tiny_policy.model, processor, max_batch=2).score(given)
    for b, (row, logprobs) in enumerate(zip(rows, found, strict=True)):
        np.testing.assert_allclose(logprobs, whole[b, : len(row.completion)], atol=1e-5)
    script = ScriptedEngine(lambda request, number, index: "", processor)
    assert [one.tolist() for one in script.score(given[:1])] == [[0.0, 0.0, 0.0]]


def test_without_vllm_the_engine_says_what_to_do(monkeypatch) -> None:
    monkeypatch.setattr("groundrl.rollout.engines.vllm.installed", lambda: False)
    with pytest.raises(ConfigError, match=r"rollout\.engine: vLLM is not installed .* run make setup-vllm"):
        VllmConfig().build(None, None)
