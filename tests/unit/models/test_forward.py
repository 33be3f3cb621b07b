"""The learner's forward pass against the model's own, on rows of every shape."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from tests.tiny import ask, picture, scorer, varied_contexts

from groundrl.models.forward import PositionCache, Row, completion_logits, pack
from groundrl.types import ImagePart, Message, TextPart

CPU = torch.device("cpu")


def rows(processor, lengths=(5, 9, 1, 7, 3)) -> list[Row]:
    rng = np.random.default_rng(0)
    return [
        Row(prompt=c.ids, images=c.images, completion=rng.integers(0, 590, size=n).astype(np.int64))
        for c, n in zip(varied_contexts(processor), lengths, strict=True)
    ]


def own_logits(model, row: Row) -> torch.Tensor:
    """The model called as its authors mean it, one unpadded row at a time: logits [C, V]."""
    ids = torch.from_numpy(np.concatenate([row.prompt, row.completion]))[None]
    extra = {}
    if row.images:
        extra = {
            "pixel_values": torch.from_numpy(np.concatenate([i.patches for i in row.images])),
            "image_grid_thw": torch.tensor([i.grid_thw for i in row.images]),
            "mm_token_type_ids": (ids == model.config.image_token_id).int(),
        }
    with torch.no_grad():
        logits = model(input_ids=ids, attention_mask=torch.ones_like(ids), **extra).logits[0]
    return logits[len(row.prompt) - 1 : -1]


def test_packed_rows_get_the_models_own_logits(tiny_policy) -> None:
    model, processor = tiny_policy.model, tiny_policy.processor
    given = rows(processor)
    with torch.no_grad():
        logits = completion_logits(model, pack(given, model, pad_id=processor.pad_id, device=CPU))
    for b, row in enumerate(given):
        torch.testing.assert_close(
            logits[b, : len(row.completion)], own_logits(model, row), rtol=0, atol=1e-4
        )


def response_with_image(processor) -> Row:
    """A second user turn with a picture, as a tool's answer inside the response."""
    context = ask(processor, "crop it", [(84, 140)], 3)
    crop = processor.prepare(picture((140, 56), 9))
    turn = processor.render((Message(role="user", parts=(ImagePart(0), TextPart("here"))),), (crop,))
    said = processor.encode("<answer>12</answer><|im_end|>\n")
    after = processor.encode("top left")
    return Row(
        prompt=context.ids,
        images=(*context.images, crop),
        completion=np.concatenate([said, turn, after]).astype(np.int64),
    )


def test_an_image_inside_the_response_gets_its_own_positions(tiny_policy) -> None:
    model, processor = tiny_policy.model, tiny_policy.processor
    row = response_with_image(processor)
    given = [*rows(processor), row]
    packed = pack(given, model, pad_id=processor.pad_id, device=CPU)
    whole = torch.from_numpy(np.concatenate([row.prompt, row.completion]))[None]
    kinds = (whole == model.config.image_token_id).int()
    grids = torch.tensor([image.grid_thw for image in row.images])
    wanted = model.model.get_rope_index(whole, kinds, image_grid_thw=grids)[0][:, 0]
    assert torch.equal(packed.positions[:, -1, : whole.shape[1]], wanted)
    # a picture of 5 x 2 image tokens advances the text behind it by 5, not by 10
    flat = torch.arange(whole.shape[1])
    assert int((flat - wanted[0])[-1]) == (15 - 5) + (10 - 5)
    with torch.no_grad():
        logits = completion_logits(model, packed)
    n = len(row.completion)
    torch.testing.assert_close(logits[-1, :n], own_logits(model, row), rtol=0, atol=1e-4)


def test_layout_of_a_packed_batch(tiny_policy) -> None:
    model, processor = tiny_policy.model, tiny_policy.processor
    given = rows(processor)
    packed = pack([*given, given[0]], model, pad_id=processor.pad_id, device=CPU)
    assert packed.target_mask.sum(1).tolist() == [5, 9, 1, 7, 3, 5]
    for b, row in enumerate(given):
        n = len(row.completion)
        assert packed.targets[b, :n].tolist() == row.completion.tolist()
        assert packed.columns[b, :n].tolist() == list(range(len(row.prompt) - 1, len(row.prompt) + n - 1))
        assert (packed.input_ids[b, len(row.prompt) + n :] == processor.pad_id).all()
    # the row that came twice shares its image: 16 + 15 + 15 + 16 + 6 tokens of 4 patches each, once
    assert packed.patches is not None
    assert packed.patches.shape[0] == 4 * (16 + 15 + 15 + 16 + 6)
    assert len(packed.feature_index) == 16 + 15 + 15 + 16 + 6 + 16


def test_a_row_does_not_depend_on_its_neighbours(exact_policy) -> None:
    score = scorer(exact_policy.processor, 0.7)
    given = rows(exact_policy.processor)
    with torch.no_grad():
        together = score(exact_policy.model, given)
        changed = rows(exact_policy.processor, (5, 30, 2, 0, 11))
        among_others = score(exact_policy.model, [changed[1], given[0], changed[4]])
        alone = [score(exact_policy.model, [row]) for row in given]
    for b, row in enumerate(given):
        n = len(row.completion)
        torch.testing.assert_close(together.logprobs[b, :n], alone[b].logprobs[0], rtol=0, atol=1e-6)
        torch.testing.assert_close(together.entropy[b, :n], alone[b].entropy[0], rtol=0, atol=1e-6)
        assert float(together.logprobs[b, n:].abs().sum()) == 0.0
    torch.testing.assert_close(among_others.logprobs[1, :5], together.logprobs[0, :5], rtol=0, atol=1e-6)


def test_log_probs_are_of_the_allowed_words_at_the_temperature(tiny_policy) -> None:
    model, processor = tiny_policy.model, tiny_policy.processor
    row = rows(processor)[0]
    for temperature in (1.0, 0.7):
        with torch.no_grad():
            got = scorer(processor, temperature)(model, [row])
        logits = own_logits(model, row).double().numpy() / temperature
        logits[:, list(processor.banned_ids)] = -np.inf
        logits -= logits.max(1, keepdims=True)
        probabilities = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
        picked = probabilities[np.arange(len(row.completion)), row.completion]
        np.testing.assert_allclose(got.logprobs[0].numpy(), np.log(picked), atol=1e-4)
        safe = np.where(probabilities > 0, probabilities, 1)
        np.testing.assert_allclose(got.entropy[0].numpy(), -(safe * np.log(safe)).sum(1), atol=1e-4)


def test_a_banned_target_gives_no_nan_gradient(fresh_policy) -> None:
    """Image tokens inside a response are never selected; their log-prob is -inf and must stay harmless."""
    model, processor = fresh_policy.model, fresh_policy.processor
    row = response_with_image(processor)
    scores = scorer(processor)(model, [row])
    banned = torch.from_numpy(np.isin(row.completion, processor.banned_ids))
    assert torch.isinf(scores.logprobs[0][banned]).all()
    assert torch.isfinite(scores.entropy).all()
    torch.where(~banned, scores.logprobs[0], torch.zeros(())).sum().backward()
    assert all(torch.isfinite(p.grad).all() for p in model.parameters() if p.grad is not None)


def test_the_same_words_with_another_picture_have_other_log_probs(tiny_policy) -> None:
    processor, score = tiny_policy.processor, scorer(tiny_policy.processor)
    completion = processor.encode('top left</think><answer>{"bbox_2d": [10, 20, 40, 50]}')
    pictures = [ask(processor, "red circle", [(112, 112)], seed) for seed in (1, 2)]
    assert pictures[0].ids.tolist() == pictures[1].ids.tolist()
    batch = [Row(prompt=c.ids, images=c.images, completion=completion) for c in pictures]
    with torch.no_grad():
        first, second = score(tiny_policy.model, batch).logprobs
    assert float((first - second).abs().max()) > 0.05


def test_the_second_picture_is_seen_in_its_place(tiny_policy) -> None:
    processor, score = tiny_policy.processor, scorer(tiny_policy.processor)
    images = tuple(processor.prepare(picture((112, 112), seed)) for seed in (1, 2))
    context = ask(processor, "compare", [(112, 112), (112, 112)])
    completion = processor.encode("top left")
    batch = [
        Row(prompt=context.ids, images=order, completion=completion)
        for order in (images, images[::-1], (images[0], images[0]))
    ]
    with torch.no_grad():
        got = score(tiny_policy.model, batch).logprobs
    assert float((got[0] - got[1]).abs().max()) > 1e-3
    assert float((got[0] - got[2]).abs().max()) > 1e-3


@pytest.mark.parametrize("keep", [0, 1])
def test_too_few_images_are_named(tiny_policy, keep) -> None:
    processor = tiny_policy.processor
    context = ask(processor, "two", [(112, 112), (56, 84)])
    row = Row(prompt=context.ids, images=context.images[:keep], completion=processor.encode("x"))
    with pytest.raises(ValueError, match=r"row 1 holds runs of \[16, 6\] image tokens"):
        pack([rows(processor)[0], row], tiny_policy.model, pad_id=processor.pad_id, device=CPU)


def test_images_in_the_wrong_order_and_too_many_are_named(tiny_policy) -> None:
    """Swapped images have the right total of tokens; only their runs tell."""
    processor = tiny_policy.processor
    context = ask(processor, "two", [(112, 112), (56, 84)])
    for images in (context.images[::-1], (*context.images, context.images[0])):
        row = Row(prompt=context.ids, images=images, completion=processor.encode("x"))
        with pytest.raises(ValueError, match=r"row 0 holds runs of \[16, 6\]"):
            pack([row], tiny_policy.model, pad_id=processor.pad_id, device=CPU)


def test_an_empty_batch_is_refused(tiny_policy) -> None:
    with pytest.raises(ValueError, match="no rows"):
        pack([], tiny_policy.model, pad_id=0, device=CPU)


def test_positions_are_computed_once_per_prompt(tiny_policy) -> None:
    context = ask(tiny_policy.processor, "q", [(112, 112)])
    cache = PositionCache(tiny_policy.model)
    assert cache.of(context.ids, context.images) is cache.of(context.ids, context.images)
    # equal content under another identity is another entry, never a stale one
    other = cache.of(context.ids[:-1].copy(), context.images)
    assert other.shape == (3, len(context.ids) - 1)
