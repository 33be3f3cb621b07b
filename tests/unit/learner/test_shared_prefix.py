"""A prompt computed once a group: the same log-probs and gradients as rows that each repeat it."""

from __future__ import annotations

import logging
from dataclasses import replace

import numpy as np
import pytest
import torch
from tests.tiny import ask, gradients, learner, picture, scorer, varied_contexts

from groundrl.learner import logprobs as logprobs_module
from groundrl.learner.config import Decay, OptimConfig, SharedPrefix
from groundrl.learner.experience import Experience
from groundrl.learner.logprobs import TokenScores
from groundrl.models import shared_prefix as packing
from groundrl.models.config import LoraConfig
from groundrl.models.forward import Row
from groundrl.models.load import freeze
from groundrl.models.lora import inject
from groundrl.types import ImagePart, Message, TextPart

GROUPS = ((5, 9, 1), (7,), (3, 3), (0, 0), (4, 20, 0, 4))
"""Completion lengths of each of tests.tiny.SIZES' prompts: groups of unequal size, equal, unequal and empty
completions; the fourth prompt (two images) has only empty ones, the fifth has no image."""


def make_rows(processor, lengths=GROUPS, seed: int = 0) -> list[Row]:
    """Rows in an order that scatters the groups."""
    rng = np.random.default_rng(seed)
    rows = [
        Row(prompt=c.ids.copy(), images=c.images, completion=rng.integers(0, 590, n).astype(np.int64))
        for c, group in zip(varied_contexts(processor), lengths, strict=True)
        for n in group
    ]
    return [rows[n] for n in np.random.default_rng(1).permutation(len(rows))]


def score(policy, rows: list[Row], mode: SharedPrefix, temperature: float = 1.0) -> tuple[TokenScores, dict]:
    """Scores, and the gradients of a loss that weights every token differently."""
    made = replace(scorer(policy.processor, temperature), shared_prefix=mode)
    policy.model.zero_grad()
    scores = made(policy.model, rows)
    weights = torch.randn(scores.mask.shape, generator=torch.Generator().manual_seed(3)) / 10
    (scores.logprobs * weights).sum().backward()
    return scores, gradients(policy.model)


def assert_same(policy, rows: list[Row]) -> dict:
    one, ours = score(policy, rows, SharedPrefix.auto, 0.8)
    two, padded = score(policy, rows, SharedPrefix.off, 0.8)
    assert torch.equal(one.mask, two.mask)
    torch.testing.assert_close(one.logprobs, two.logprobs, rtol=1e-6, atol=1e-5)
    torch.testing.assert_close(one.entropy, two.entropy, rtol=1e-6, atol=1e-5)
    assert ours.keys() == padded.keys()
    largest = max(float(np.abs(value).max()) for value in padded.values())
    for name, value in padded.items():
        assert np.abs(value - ours[name]).max() <= 1e-5 * largest, name
    return ours


class Seen:
    """Tokens that reach the language model and patches that reach the vision tower."""

    def __init__(self, model, monkeypatch: pytest.MonkeyPatch) -> None:
        self.tokens: list[int] = []
        self.patches: list[int] = []
        inner, look = model.model.language_model.forward, model.model.get_image_features

        def forward(*args, **kwargs) -> object:
            self.tokens.append(kwargs["inputs_embeds"].shape[:2].numel())
            return inner(*args, **kwargs)

        def features(patches, grids) -> object:
            self.patches.append(len(patches))
            return look(patches, grids)

        monkeypatch.setattr(model.model.language_model, "forward", forward)
        monkeypatch.setattr(model.model, "get_image_features", features)


def test_equal_to_padded_rows(fresh_policy, monkeypatch) -> None:
    fresh_policy.model.train()
    rows = make_rows(fresh_policy.processor)
    grads = assert_same(fresh_policy, rows)
    assert np.abs(grads["model.visual.patch_embed.proj.weight"]).max() > 0
    seen = Seen(fresh_policy.model, monkeypatch)
    score(fresh_policy, rows, SharedPrefix.auto)
    contexts = varied_contexts(fresh_policy.processor)
    assert seen.tokens == [sum(len(c.ids) for c in contexts) + sum(sum(group) for group in GROUPS)]
    assert seen.patches == [sum(len(image.patches) for c in contexts for image in c.images)]


@pytest.mark.parametrize("kind", ["checkpointing", "lora", "frozen vision", "two lengths"])
def test_equal_to_padded_rows_however_the_model_learns(fresh_policy, kind) -> None:
    model, lengths = fresh_policy.model.train(), GROUPS
    if kind == "checkpointing":
        model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    elif kind == "lora":
        inject(model, fresh_policy.family, LoraConfig(rank=4, dropout=0.0))
        for name, parameter in model.named_parameters():
            if "lora_B" in name:
                torch.nn.init.normal_(parameter, std=0.02, generator=torch.Generator().manual_seed(0))
    elif kind == "frozen vision":
        freeze(model, fresh_policy.family, vision=True, projector=True)
    else:
        lengths = ((6, 6), (6, 6), (30, 30, 30), (1, 1), (2,))  # side by side without padding
    grads = assert_same(fresh_policy, make_rows(fresh_policy.processor, lengths))
    assert any(("lora" in name) == (kind == "lora") for name in grads)
    assert any("visual" in name for name in grads) == (kind not in ("lora", "frozen vision"))


def test_a_row_does_not_see_the_others_of_its_group(tiny_policy) -> None:
    rows = make_rows(tiny_policy.processor)
    made = scorer(tiny_policy.processor)
    with torch.no_grad():
        before = made(tiny_policy.model, rows).logprobs
        for changed in range(len(rows)):
            other = rows[changed]
            cut = replace(other, completion=(other.completion[::-1] + 1)[: max(1, len(other.completion) - 1)])
            after = made(tiny_policy.model, [*rows[:changed], cut, *rows[changed + 1 :]]).logprobs
            for n, row in enumerate(rows):
                if n != changed:
                    c = len(row.completion)
                    torch.testing.assert_close(after[n, :c], before[n, :c], rtol=1e-6, atol=1e-5)


def test_images_inside_the_responses(fresh_policy) -> None:
    """Two rows share a prompt with one image and go on with different crops; a third one only reads it."""
    processor = fresh_policy.processor
    context = ask(processor, "crop it", [(84, 140)], 3)
    rows = [Row(prompt=context.ids, images=context.images, completion=processor.encode("seen"))]
    for number, size in enumerate([(140, 56), (56, 56)]):
        crop = processor.prepare(picture(size, number))
        turn = processor.render((Message(role="user", parts=(ImagePart(0), TextPart("here"))),), (crop,))
        parts = [processor.encode("<answer>12</answer><|im_end|>\n"), turn, processor.encode("top left")]
        whole = np.concatenate(parts).astype(np.int64)
        rows.append(Row(prompt=context.ids, images=(*context.images, crop), completion=whole))
    assert packing.group_rows(rows, fresh_policy.model) == [[1, 2, 0]]
    assert_same(fresh_policy, rows)


def test_equal_words_about_another_picture_are_another_group(fresh_policy) -> None:
    processor = fresh_policy.processor
    contexts = [ask(processor, "same", [(84, 84)], seed) for seed in (1, 1, 2)]
    assert np.array_equal(contexts[0].ids, contexts[2].ids)
    completion = processor.encode("word").astype(np.int64)
    rows = [Row(prompt=c.ids, images=c.images, completion=completion) for c in (*contexts, contexts[0])]
    assert sorted(map(len, packing.group_rows(rows, fresh_policy.model))) == [1, 1, 2]
    scores, _ = score(fresh_policy, rows, SharedPrefix.auto)
    torch.testing.assert_close(scores.logprobs[0], scores.logprobs[1], rtol=1e-6, atol=1e-5)
    assert float((scores.logprobs[0] - scores.logprobs[2]).detach().abs().max()) > 1e-3
    assert_same(fresh_policy, rows)


def test_a_prompt_that_nobody_shares_is_not_packed(tiny_policy, monkeypatch) -> None:
    rows = make_rows(tiny_policy.processor, ((2,), (1,), (3,), (0,), (2,)))
    seen = Seen(tiny_policy.model, monkeypatch)
    with torch.no_grad():
        scorer(tiny_policy.processor)(tiny_policy.model, rows)
    assert seen.tokens == [5 * max(len(row.prompt) + len(row.completion) for row in rows)]


def settings(policy, monkeypatch: pytest.MonkeyPatch, **values) -> None:
    for name, value in values.items():
        monkeypatch.setattr(policy.model.config.text_config, name, value)


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        ({"layer_types": ["full_attention", "linear_attention"]}, "layers of kind linear_attention"),
        ({"attention_dropout": 0.1}, "dropout in attention"),
        ({"_attn_implementation": "eager"}, "attention implementation eager"),
    ],
)
def test_padded_rows_where_the_model_does_not_allow_sharing(
    fresh_policy, monkeypatch, caplog, values, reason
) -> None:
    model = fresh_policy.model.train()
    assert packing.obstacle(model) is None
    settings(fresh_policy, monkeypatch, **values)
    assert packing.obstacle(model) == reason
    assert (packing.obstacle(model.eval()) is None) == ("attention_dropout" in values)
    settings(fresh_policy, monkeypatch, layer_types=["full_attention"] * 3)
    if "layer_types" in values:
        monkeypatch.setattr(logprobs_module, "obstacle", lambda model: reason)
    monkeypatch.setattr(logprobs_module, "_told", set())
    seen = Seen(model, monkeypatch)
    rows = make_rows(fresh_policy.processor)
    with caplog.at_level(logging.WARNING), torch.no_grad():
        model.train()
        for _ in range(2):
            scorer(fresh_policy.processor)(model, rows)
    assert seen.tokens == [len(rows) * max(len(row.prompt) + len(row.completion) for row in rows)] * 2
    assert [reason in record.message for record in caplog.records] == [True]


def test_a_model_that_drops_the_layout_is_noticed(tiny_policy, monkeypatch) -> None:
    plain = packing.hidden_states
    monkeypatch.setattr(packing, "hidden_states", lambda model, packed, **_: plain(model, packed))
    with pytest.raises(RuntimeError, match=r"0 of 3 layers got the layout.*shared_prefix=off"):
        scorer(tiny_policy.processor)(tiny_policy.model, make_rows(tiny_policy.processor))


def test_rows_that_cannot_be_packed(tiny_policy) -> None:
    rows = make_rows(tiny_policy.processor)
    wrong = next(n for n, row in enumerate(rows) if len(row.images) == 1)
    image = next(row.images[0] for row in rows if len(row.images) == 2)
    mixed = [*rows[:wrong], replace(rows[wrong], images=(image,)), *rows[wrong + 1 :]]
    with pytest.raises(ValueError, match=f"row {wrong} holds runs of"):
        scorer(tiny_policy.processor)(tiny_policy.model, mixed)
    empty = replace(rows[0], prompt=np.zeros(0, dtype=np.int64), images=())
    with pytest.raises(ValueError, match="row 0 has an empty prompt"):
        scorer(tiny_policy.processor)(tiny_policy.model, [empty, empty])


def learn(policy, **optim) -> tuple[dict[str, float], dict]:
    """Metrics and gradient of one batch with a learning rate of 0."""
    rows = make_rows(policy.processor)
    rng = np.random.default_rng(5)
    batch = [
        Experience(
            row=row,
            selected=rng.random(len(row.completion)) < 0.8,
            advantage=float(rng.normal()),
            behaviour_logprobs=np.full(len(row.completion), -1.0, dtype=np.float32),
            rollout=number,
        )
        for number, row in enumerate(rows)
    ]
    score_of_policy = replace(scorer(policy.processor), shared_prefix=optim.get("shared_prefix", "auto"))
    made = learner(
        policy.model,
        policy.processor,
        lr=0.0,
        optim=OptimConfig(decay=Decay.constant, max_grad_norm=1e9, **optim),
    )
    made.scorer = score_of_policy
    return made.step(batch), gradients(policy.model)


def test_the_split_into_micro_batches_changes_rounding_only(fresh_policy) -> None:
    metrics, whole = learn(fresh_policy, shared_prefix=SharedPrefix.off)
    largest = max(float(np.abs(value).max()) for value in whole.values())
    assert largest > 1e-2
    for optim in ({}, {"micro_batch": 2}, {"micro_batch": 5}, {"micro_tokens": 1}, {"micro_tokens": 120}):
        other, grads = learn(fresh_policy, **optim)
        assert metrics["learner/loss"] == pytest.approx(other["learner/loss"], rel=1e-4)
        for name, value in whole.items():
            assert np.abs(value - grads[name]).max() <= 1e-5 * largest, (optim, name)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
def test_equal_to_padded_rows_on_a_gpu(fresh_policy) -> None:
    """bfloat16 keeps 8 bits: log-probs of about 10 to a few hundredths, gradients by direction."""
    fresh_policy.model.to("cuda", torch.bfloat16).train()
    rows = make_rows(fresh_policy.processor)
    results = []
    for mode in (SharedPrefix.auto, SharedPrefix.off):
        made = replace(scorer(fresh_policy.processor), shared_prefix=mode)
        fresh_policy.model.zero_grad()
        scores = made(fresh_policy.model, rows)
        scores.logprobs.sum().backward()
        grads = [p.grad.float().flatten() for p in fresh_policy.model.parameters() if p.grad is not None]
        results.append((scores.logprobs.detach(), torch.cat(grads)))
    (one, ours), (two, padded) = results
    torch.testing.assert_close(one, two, rtol=2e-2, atol=0.2)
    assert float(torch.nn.functional.cosine_similarity(ours, padded, dim=0)) > 0.999
