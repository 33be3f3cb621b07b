"""What the learner does with rows, for every family: a shared prompt, chunks of logits, neighbours, ends."""

from __future__ import annotations

import copy
import logging
from dataclasses import replace

import numpy as np
import pytest
import torch
from tests.tiny import gradients, picture, scorer, varied_contexts
from tests.unit.models.tiny_families import build

from groundrl.learner import logprobs as logprobs_module
from groundrl.learner.config import SharedPrefix
from groundrl.models import chunked_logprobs
from groundrl.models.config import ModelConfig
from groundrl.models.family import FAMILIES
from groundrl.models.forward import Row, completion_logits, hidden_states, pack
from groundrl.models.load import Policy, load_policy
from groundrl.models.shared_prefix import obstacle
from groundrl.rollout.engines.base import Request, Sampling
from groundrl.rollout.engines.hf_engine import HFEngine

GROUPS = ((5, 9, 1), (7,), (3, 3), (0, 6), (4, 70, 2))
"""Completion lengths of each of tests.tiny.SIZES' prompts, which differ in length and in their pictures; the
longest makes a row of two chunks of 64 tokens, in which transformers computes recurrent states."""
CPU = torch.device("cpu")


@pytest.fixture(scope="module", params=sorted(FAMILIES))
def loaded(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Policy:
    folder = tmp_path_factory.mktemp("every") / request.param
    build(request.param, folder)
    return load_policy(ModelConfig(path=str(folder)))


@pytest.fixture
def policy(loaded: Policy) -> Policy:
    """A copy that a test may change."""
    return replace(loaded, model=copy.deepcopy(loaded.model))


def make_rows(policy: Policy, seed: int = 0) -> list[Row]:
    """Rows in an order that scatters the groups."""
    rng = np.random.default_rng(seed)
    rows = [
        Row(prompt=c.ids, images=c.images, completion=rng.integers(0, 590, n).astype(np.int64))
        for c, group in zip(varied_contexts(policy.processor), GROUPS, strict=True)
        for n in group
    ]
    return [rows[n] for n in np.random.default_rng(1).permutation(len(rows))]


def token_weights() -> torch.Tensor:
    """Of every token of `make_rows`, row after row."""
    return torch.randn(sum(map(sum, GROUPS)), generator=torch.Generator().manual_seed(3)) / 10


def score(policy: Policy, pieces: list[list[Row]], mode: SharedPrefix) -> tuple[torch.Tensor, dict]:
    """Log-probs of all rows' tokens in order, and the summed gradients of a loss that weights every token
    differently; each piece is scored by itself."""
    made = replace(scorer(policy.processor, 0.8), shared_prefix=mode)
    policy.model.zero_grad()
    weights = iter(token_weights().split([sum(len(row.completion) for row in piece) for piece in pieces]))
    out: list[torch.Tensor] = []
    for piece in pieces:
        scores = made(policy.model, piece)
        known = scores.logprobs[scores.mask]
        (known * next(weights)).sum().backward()
        out.append(known.detach())
    return torch.cat(out), gradients(policy.model)


def assert_close(one: tuple[torch.Tensor, dict], two: tuple[torch.Tensor, dict]) -> None:
    torch.testing.assert_close(one[0], two[0], rtol=1e-6, atol=1e-5)
    assert one[1].keys() == two[1].keys()
    largest = max(float(np.abs(value).max()) for value in two[1].values())
    assert largest > 1e-2
    for name, value in two[1].items():
        assert np.abs(value - one[1][name]).max() <= 1e-5 * largest, name


def test_a_shared_prompt_padded_rows_and_rows_alone_are_the_same(policy, monkeypatch, caplog) -> None:
    monkeypatch.setattr(logprobs_module, "_told", set())
    rows = make_rows(policy)
    with caplog.at_level(logging.WARNING):
        shared = score(policy, [rows], SharedPrefix.auto)
    alone = score(policy, [[row] for row in rows], SharedPrefix.off)
    assert_close(score(policy, [rows], SharedPrefix.off), alone)
    assert_close(shared, alone)
    reasons = ["layers of kind linear_attention"] if policy.family.recurrent else []
    told = [record.message for record in caplog.records if record.name.startswith("groundrl")]
    assert [obstacle(policy.model)] == (reasons or [None])
    assert told == [f"prompts are computed once for each completion: {reason}" for reason in reasons]


def test_the_prompt_is_computed_once_a_group_unless_layers_have_a_state(policy, monkeypatch) -> None:
    seen: list[torch.Size] = []
    inner = policy.model.model.language_model.forward

    def forward(*args, **kwargs) -> object:
        seen.append(kwargs["inputs_embeds"].shape[:2])
        return inner(*args, **kwargs)

    monkeypatch.setattr(policy.model.model.language_model, "forward", forward)
    rows = make_rows(policy)
    with torch.no_grad():
        scorer(policy.processor)(policy.model, rows)
    prompts = sum(len(context.ids) for context in varied_contexts(policy.processor))
    packed = [(1, prompts + sum(sum(group) for group in GROUPS))]
    padded = [(len(rows), max(len(row.prompt) + len(row.completion) for row in rows))]
    assert seen == (padded if policy.family.recurrent else packed)


def test_other_rows_do_not_change_a_row(policy) -> None:
    """Every other row gets other words, another length and, with its group, another picture."""
    rows = make_rows(policy)
    made = scorer(policy.processor)
    place = next(number for number, row in enumerate(rows) if len(row.completion) == 9)
    mine = rows[place]
    others: list[Row] = []
    for number, row in enumerate(rows):
        if row.images is mine.images:
            others.append(replace(row, completion=row.completion[::-1][: number + 1] + 1))
            continue
        images = tuple(
            policy.processor.prepare(picture(image.frame.original, 50 + number)) for image in row.images
        )
        others.append(replace(row, images=images, completion=np.tile(row.completion + 1, 2)))
    others[place] = mine
    with torch.no_grad():
        before = made(policy.model, rows).logprobs[place, :9]
        after = made(policy.model, others).logprobs[place, :9]
    torch.testing.assert_close(after, before, rtol=1e-6, atol=1e-5)


def test_what_stands_in_padding_does_not_matter(policy) -> None:
    """Not even to the states of recurrent layers: padding comes after every real token."""
    rows = make_rows(policy)
    packed = pack(rows, policy.model, pad_id=policy.processor.pad_id, device=CPU)
    with torch.no_grad():
        before = hidden_states(policy.model.eval(), packed)
        for number, row in enumerate(rows):
            packed.input_ids[number, len(row.prompt) + len(row.completion) :] = 7 + number
        after = hidden_states(policy.model, packed)
    for number, row in enumerate(rows):
        real = len(row.prompt) + len(row.completion)
        torch.testing.assert_close(after[number, :real], before[number, :real], rtol=1e-6, atol=1e-6)
    assert float((after - before).abs().max()) > 1e-2


def test_chunks_of_logits_are_the_whole_matrix(policy, monkeypatch) -> None:
    rows = make_rows(policy)
    monkeypatch.setattr(chunked_logprobs, "CHUNK_ELEMENTS", 17 * policy.model.lm_head.out_features)
    ours = score(policy, [rows], SharedPrefix.off)
    policy.model.zero_grad()
    packed = pack(rows, policy.model, pad_id=policy.processor.pad_id, device=CPU)
    logits = completion_logits(policy.model, packed)[packed.target_mask] / 0.8
    logits = logits.index_fill(1, torch.tensor(policy.processor.banned_ids), float("-inf"))
    known = logits.log_softmax(1).gather(1, packed.targets[packed.target_mask][:, None])[:, 0]
    assert len(known) > 5 * 17
    (known * token_weights()).sum().backward()
    assert_close(ours, (known.detach(), gradients(policy.model)))


def test_rows_that_end_at_different_times_keep_their_own_cache(policy) -> None:
    """Groups of eight in one batch with prompts of other lengths; a sixth of all words ends a completion, so
    that rows leave the cache several times."""
    processor = copy.copy(policy.processor)
    processor.eos_ids = frozenset(range(0, 590, 6))
    contexts = varied_contexts(processor)
    requests = [
        Request(prompt_ids=c.ids, images=c.images, seeds=tuple(range(8 * n, 8 * n + 8)))
        for n, c in enumerate(contexts)
    ]
    sampling = Sampling(temperature=3.0, max_new_tokens=20)
    made = HFEngine(policy.model, processor, max_batch=64).generate(requests, sampling)
    lengths = {len(one.ids) for row in made for one in row}
    assert len(lengths) > 5
    made_alone = HFEngine(policy.model, processor, max_batch=1).generate(requests[:2], sampling)
    score_one = scorer(processor, 3.0)
    for context, row in zip(contexts, made, strict=True):
        given = [Row(prompt=context.ids, images=context.images, completion=one.ids) for one in row]
        with torch.no_grad():
            scores = score_one(policy.model, given).logprobs.numpy()
        for number, one in enumerate(row):
            np.testing.assert_allclose(one.logprobs, scores[number, : len(one.ids)], rtol=0, atol=1e-4)
    for row, alone in zip(made, made_alone, strict=False):
        assert [one.ids.tolist() for one in row] == [one.ids.tolist() for one in alone]


def test_only_the_last_layer_learns(loaded) -> None:
    """Of the language model, its last layer, final norm and head; tower and projector as ever."""
    config = ModelConfig(path=str(loaded.model.name_or_path), train_last_layers=1, freeze_vision=True)
    model = load_policy(config).model
    last = model.config.get_text_config().num_hidden_layers - 1
    language = "model.language_model."
    kept = (f"{language}layers.{last}.", f"{language}norm.", "lm_head.", *loaded.family.projectors)
    for name, parameter in model.named_parameters():
        assert parameter.requires_grad == name.startswith(kept), name
