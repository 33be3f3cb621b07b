"""Engine and learner are one policy: log-probs agree, and greedy decoding is what the model's authors get."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest
import torch
from tests.tiny import ask, scorer, varied_contexts

from groundrl.models.forward import Row
from groundrl.models.load import Policy
from groundrl.rollout.collect import Collector
from groundrl.rollout.engines.base import Request, Sampling
from groundrl.rollout.engines.hf_engine import HFEngine
from groundrl.rollout.episode import Context
from groundrl.rollout.single_turn import SingleTurn

ROUNDING = 4e-6
"""Log-probs are kept in float32, whose step is 1.9e-6 at -16; the models compute in float64."""


@pytest.fixture(params=["left", "right"])
def padded(tiny_policy, request) -> Iterator[Policy]:
    """The policy with the tokenizer's padding side set: neither engine nor learner may care."""
    tokenizer = tiny_policy.processor.tokenizer
    before = tokenizer.padding_side
    tokenizer.padding_side = request.param
    yield tiny_policy
    tokenizer.padding_side = before


def real_contexts(processor, config, samples) -> list[Context]:
    """The task's own prompts."""
    prompt, out = config.prompt.build(), []
    for sample in samples:
        images = tuple(processor.prepare(image) for image in sample.images)
        out.append(Context(ids=processor.render(prompt.messages(sample), images), images=images))
    return out


def drawn(policy, contexts, sampling, seeds) -> list[tuple[Row, np.ndarray]]:
    engine = HFEngine(policy.model, policy.processor, max_batch=64)
    requests = [Request(prompt_ids=c.ids, images=c.images, seeds=seeds) for c in contexts]
    out = []
    for context, row in zip(contexts, engine.generate(requests, sampling), strict=True):
        out += [(Row(prompt=context.ids, images=context.images, completion=c.ids), c.logprobs) for c in row]
    return out


def gap(
    policy, contexts, sampling, seeds=(1, 2, 3), scored_at: float | None = None
) -> tuple[list[float], list[int]]:
    """Largest difference between the engine's and the learner's log-probs, and the length, of each row."""
    made = drawn(policy, contexts, sampling, seeds)
    temperature = sampling.temperature if scored_at is None else scored_at
    with torch.no_grad():
        scores = scorer(policy.processor, temperature)(policy.model, [row for row, _ in made])
    gaps = []
    for b, (row, logprobs) in enumerate(made):
        assert np.isfinite(logprobs).all()
        assert (logprobs <= 0).all()
        gaps.append(float(np.abs(scores.logprobs[b, : len(row.completion)].numpy() - logprobs).max()))
    return gaps, [len(row.completion) for row, _ in made]


@pytest.mark.parametrize("temperature", [1.0, 0.7])
@pytest.mark.parametrize("truncation", [{}, {"top_k": 5}, {"top_p": 0.8}])
def test_engine_and_learner_give_the_same_log_probs(padded, exact_policy, temperature, truncation) -> None:
    """Prompts of unequal length, pictures of unequal size, two pictures, none; in float64, without slack."""
    policy = replace(padded, model=exact_policy.model)
    contexts = varied_contexts(policy.processor)
    assert len({len(c.ids) for c in contexts}) == len(contexts)
    sampling = Sampling(temperature=temperature, max_new_tokens=32, **truncation)
    gaps, lengths = gap(policy, contexts, sampling)
    assert max(gaps) < ROUNDING
    assert len(set(lengths)) > 3


@pytest.mark.parametrize("temperature", [1.0, 0.7])
def test_they_agree_in_float32_on_the_tasks_own_prompts(
    tiny_policy, tiny_config, rec_samples, temperature
) -> None:
    contexts = real_contexts(tiny_policy.processor, tiny_config, rec_samples[:24])
    assert len({len(c.ids) for c in contexts}) > 1
    gaps, _ = gap(tiny_policy, contexts, Sampling(temperature=temperature, max_new_tokens=32), seeds=(1, 2))
    assert max(gaps) < 1e-5


def test_another_temperature_is_another_policy(tiny_policy) -> None:
    """The agreement above is no accident of flat distributions."""
    sampling = Sampling(temperature=0.7, max_new_tokens=32)
    gaps, _ = gap(tiny_policy, varied_contexts(tiny_policy.processor), sampling, seeds=(1,), scored_at=1.0)
    assert min(gaps) > 1e-3
    assert max(gaps) > 0.1


def test_greedy_log_probs_are_those_at_temperature_one(tiny_policy) -> None:
    sampling = Sampling(temperature=0.0, max_new_tokens=32)
    gaps, _ = gap(tiny_policy, varied_contexts(tiny_policy.processor), sampling, seeds=(0,), scored_at=1.0)
    assert max(gaps) < 2e-5


def greedy_by_transformers(policy, contexts: list[Context], limit: int) -> list[list[int]]:
    """`model.generate` on one left-padded batch; each row cut behind its end token."""
    model, processor = policy.model, policy.processor
    longest = max(len(c.ids) for c in contexts)
    ids = torch.full((len(contexts), longest), processor.pad_id)
    mask = torch.zeros_like(ids)
    for row, context in enumerate(contexts):
        ids[row, longest - len(context.ids) :] = torch.from_numpy(context.ids)
        mask[row, longest - len(context.ids) :] = 1
    images = [image for context in contexts for image in context.images]
    with torch.no_grad():
        out = model.generate(
            input_ids=ids,
            attention_mask=mask,
            mm_token_type_ids=(ids == processor.image_id).int(),
            pixel_values=torch.from_numpy(np.concatenate([image.patches for image in images])),
            image_grid_thw=torch.tensor([image.grid_thw for image in images]),
            do_sample=False,
            max_new_tokens=limit,
            suppress_tokens=list(processor.banned_ids),
            eos_token_id=sorted(processor.eos_ids),
            pad_token_id=processor.pad_id,
        )
    answers = []
    for row in out[:, longest:].tolist():
        ends = [t for t, token in enumerate(row) if token in processor.eos_ids]
        answers.append(row[: ends[0] + 1] if ends else row)
    return answers


def test_greedy_equals_transformers_token_for_token(padded, tiny_config, rec_samples) -> None:
    """40 prompts: real ones, and others of unequal length with pictures of unequal size."""
    processor = padded.processor
    contexts = real_contexts(processor, tiny_config, rec_samples[:30])
    sizes = ([(84, 140)], [(140, 84)], [(112, 112), (56, 84)], [], [(56, 56)])
    contexts += [ask(processor, f"blue square {'or red ' * n}", sizes[n % 5], n) for n in range(10)]
    assert len({len(c.ids) for c in contexts}) > 8

    wanted = greedy_by_transformers(padded, contexts, 40)
    got = drawn(padded, contexts, Sampling(temperature=0.0, max_new_tokens=40), seeds=(0,))
    assert [row.completion.tolist() for row, _ in got] == wanted
    assert len({len(answer) for answer in wanted}) > 3
    # in batches of another make-up too, rows leaving early
    for start in range(0, 40, 7):
        piece = drawn(padded, contexts[start : start + 7], Sampling(temperature=0.0, max_new_tokens=40), (0,))
        assert [row.completion.tolist() for row, _ in piece] == wanted[start : start + 7]


def test_answers_follow_the_picture(tiny_policy, tiny_config, rec_samples) -> None:
    """The same questions beside other pictures: answers that ignored the picture would score the same."""
    rubric = tiny_config.reward.build()
    engine = HFEngine(tiny_policy.model, tiny_policy.processor, max_batch=64)
    collector = Collector(engine, tiny_policy.processor, tiny_config.prompt.build(), SingleTurn())
    rewards = []
    for shift in (0, 1):
        shown = [
            replace(sample, images=rec_samples[(n + shift) % len(rec_samples)].images)
            for n, sample in enumerate(rec_samples)
        ]
        rollouts = collector.collect(shown, 1, Sampling(temperature=0.0, max_new_tokens=48), seed=(0,))
        scored = [rubric.score(r, sample).terms["iou"] for r, sample in zip(rollouts, shown, strict=True)]
        rewards.append(np.mean([term.value for term in scored]))
    assert rewards[0] > 0.3
    assert rewards[0] > rewards[1] + 0.2
