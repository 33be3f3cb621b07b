"""The HF engine: batches, ends, limits, and the order of what comes back."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from tests.tiny import ask, varied_contexts
from transformers import DynamicCache

from groundrl.errors import ConfigError
from groundrl.models.processor import Processor
from groundrl.rollout.engines.base import Completion, EngineConfig, Request, Sampling
from groundrl.rollout.engines.hf import HFEngineConfig
from groundrl.rollout.engines.hf_engine import HFEngine, _chunks

SAMPLED = Sampling(temperature=1.0, max_new_tokens=24)


def requests(processor, per_prompt: int = 3) -> list[Request]:
    return [
        Request(prompt_ids=c.ids, images=c.images, seeds=tuple(100 * n + k for k in range(per_prompt)))
        for n, c in enumerate(varied_contexts(processor))
    ]


def same_ids(a: list[list[Completion]], b: list[list[Completion]]) -> bool:
    return [[c.ids.tolist() for c in row] for row in a] == [[c.ids.tolist() for c in row] for row in b]


@pytest.fixture
def engine(exact_policy) -> HFEngine:
    return HFEngine(exact_policy.model, exact_policy.processor, max_batch=256)


@pytest.mark.parametrize("max_batch", [1, 2, 4, 7])
def test_the_size_of_a_batch_changes_no_token(exact_policy, engine, max_batch) -> None:
    given = requests(exact_policy.processor)
    whole = engine.generate(given, SAMPLED)
    split = HFEngine(exact_policy.model, exact_policy.processor, max_batch=max_batch).generate(given, SAMPLED)
    assert same_ids(whole, split)
    for row, other in zip(whole, split, strict=True):
        for a, b in zip(row, other, strict=True):
            np.testing.assert_allclose(a.logprobs, b.logprobs, atol=1e-6)
            assert a.finished == b.finished


def test_a_completion_depends_on_its_seed_and_context_alone(exact_policy, engine) -> None:
    given = requests(exact_policy.processor)
    whole = engine.generate(given, SAMPLED)
    alone = engine.generate(
        [Request(prompt_ids=given[2].prompt_ids, images=given[2].images, seeds=(201,))], SAMPLED
    )
    assert alone[0][0].ids.tolist() == whole[2][1].ids.tolist()
    np.testing.assert_allclose(alone[0][0].logprobs, whole[2][1].logprobs, atol=1e-6)
    others = [given[2], *requests(exact_policy.processor, 1)[:2]]
    among = engine.generate(others[::-1], SAMPLED)
    assert [c.ids.tolist() for c in among[2]] == [c.ids.tolist() for c in whole[2]]
    assert len({tuple(c.ids.tolist()) for row in whole for c in row}) > 10  # they do differ from each other


def test_the_same_seed_twice_gives_the_same_completion(exact_policy, engine) -> None:
    context = ask(exact_policy.processor, "red circle", [(112, 112)])
    row = engine.generate([Request(prompt_ids=context.ids, images=context.images, seeds=(5, 6, 5))], SAMPLED)[
        0
    ]
    assert row[0].ids.tolist() == row[2].ids.tolist() != row[1].ids.tolist()


def test_ends_and_limits(exact_policy, engine) -> None:
    given = requests(exact_policy.processor, 4)
    eos = exact_policy.processor.eos_ids
    full = engine.generate(given, Sampling(temperature=1.0, max_new_tokens=60))
    lengths = [len(c.ids) for row in full for c in row]
    assert len(set(lengths)) > 3
    for row in full:
        for c in row:
            assert len(c.ids) == len(c.logprobs) <= 60
            assert c.finished == (int(c.ids[-1]) in eos)
            assert not np.isin(c.ids[:-1], list(eos)).any()
            assert c.finished or len(c.ids) == 60
            assert not np.isin(c.ids, exact_policy.processor.banned_ids).any()
    # cut one token before the shortest end, and exactly at it
    shortest = min(lengths)
    at = engine.generate(given, Sampling(temperature=1.0, max_new_tokens=shortest))
    before = engine.generate(given, Sampling(temperature=1.0, max_new_tokens=shortest - 1))
    assert [c.finished for row in at for c in row] == [n == shortest for n in lengths]
    assert not any(c.finished for row in before for c in row)
    for row, cut in zip(full, before, strict=True):
        for c, short in zip(row, cut, strict=True):
            assert short.ids.tolist() == c.ids[: shortest - 1].tolist()
            assert len(short.ids) == shortest - 1


def test_any_end_token_of_the_processor_ends(exact_policy, engine) -> None:
    """The third token of an answer, declared an end token, ends it there."""
    context = ask(exact_policy.processor, "red circle", [(112, 112)])
    request = Request(prompt_ids=context.ids, images=context.images, seeds=(0,))
    greedy = Sampling(temperature=0.0, max_new_tokens=24)
    whole = engine.generate([request], greedy)[0][0].ids.tolist()
    assert len(whole) > 3
    processor = Processor(
        exact_policy.processor.tokenizer, exact_policy.processor.image_processor, exact_policy.family
    )
    processor.eos_ids = processor.eos_ids | {whole[2]}
    cut = HFEngine(exact_policy.model, processor, max_batch=4).generate([request], greedy)[0][0]
    assert cut.finished
    assert cut.ids.tolist() == whole[: whole.index(whole[2]) + 1]


def test_rows_that_ended_leave_the_batch_without_changing_the_rest(exact_policy, engine, monkeypatch) -> None:
    given = requests(exact_policy.processor, 1)
    dropped: list[int] = []
    select = DynamicCache.reorder_cache

    def spy(cache: DynamicCache, indices: torch.Tensor) -> None:
        dropped.append(len(indices))
        select(cache, indices)

    monkeypatch.setattr(DynamicCache, "reorder_cache", spy)
    long = Sampling(temperature=1.0, max_new_tokens=60)
    with_dropping = engine.generate(given, long)
    assert dropped  # one seed a request, so only compaction selects rows
    assert dropped == sorted(dropped, reverse=True)
    assert dropped[0] < len(given)
    dropped.clear()
    monkeypatch.setattr("groundrl.rollout.engines.hf_engine.COMPACT_BELOW", 0.0)
    without = engine.generate(given, long)
    assert not dropped
    assert same_ids(with_dropping, without)
    for row, other in zip(with_dropping, without, strict=True):
        np.testing.assert_allclose(row[0].logprobs, other[0].logprobs, atol=1e-6)


def test_the_model_keeps_its_mode(exact_policy, engine) -> None:
    given = requests(exact_policy.processor, 1)[:1]
    for training in (True, False):
        exact_policy.model.train(training)
        engine.generate(given, Sampling(temperature=0.0, max_new_tokens=2))
        assert exact_policy.model.training is training
    exact_policy.model.train()
    broken = Request(prompt_ids=given[0].prompt_ids, images=(), seeds=(1,))
    with pytest.raises(ValueError, match="image tokens"):
        engine.generate([broken], SAMPLED)
    assert exact_policy.model.training
    exact_policy.model.eval()


def test_weights_follow_sync(tiny_policy, fresh_policy) -> None:
    engine = HFEngine(tiny_policy.model, tiny_policy.processor, max_batch=256)
    given = requests(tiny_policy.processor, 1)
    before = engine.generate(given, SAMPLED)
    with torch.no_grad():
        for parameter in fresh_policy.model.parameters():
            parameter.mul_(0.5)
    engine.sync_weights(fresh_policy.model)
    assert not same_ids(before, engine.generate(given, SAMPLED))
    engine.sync_weights(tiny_policy.model)
    assert same_ids(before, engine.generate(given, SAMPLED))


def test_nothing_asked(exact_policy, engine) -> None:
    assert engine.generate([], SAMPLED) == []
    context = ask(exact_policy.processor, "q")
    assert engine.generate([Request(prompt_ids=context.ids, images=(), seeds=())], SAMPLED) == [[]]


@pytest.mark.parametrize("size", [1, 2, 3, 5, 100])
def test_chunks_cover_every_seed_once_in_order(size) -> None:
    context = np.zeros(1, dtype=np.int64)
    given = [
        Request(prompt_ids=context, images=(), seeds=tuple(range(n * 10, n * 10 + count)))
        for n, count in enumerate((3, 0, 2, 7, 1))
    ]
    pieces = _chunks(given, size)
    assert all(0 < len(piece) <= size for piece in pieces)
    flat = [pair for piece in pieces for pair in piece]
    assert flat == [(n, seed) for n, request in enumerate(given) for seed in request.seeds]


def test_settings() -> None:
    with pytest.raises(ConfigError, match=r"^max_batch: "):
        HFEngineConfig(max_batch=0)
    with pytest.raises(ConfigError):
        EngineConfig().build(None, None)
