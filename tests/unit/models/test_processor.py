"""Prompts: what a data row may say, which images it may place, and how long the tiny prompts are."""

from __future__ import annotations

import copy

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image
from tests.tiny import ask, picture

from groundrl.config.compose import compose_run
from groundrl.data.base import Split
from groundrl.errors import DataError, UserError
from groundrl.models.family import family_of
from groundrl.models.processor import Processor
from groundrl.models.tiny.tokenizer import SPECIAL, build_tokenizer
from groundrl.types import ImagePart, Message, TextPart

TOKENIZER = build_tokenizer()


def user(*parts) -> tuple[Message, ...]:
    return (Message(role="user", parts=tuple(TextPart(p) if isinstance(p, str) else p for p in parts)),)


@settings(max_examples=300, deadline=None)
@given(st.text(alphabet=st.characters(exclude_categories=("Cs",)), max_size=40))
def test_any_text_comes_back(text) -> None:
    ids = TOKENIZER.encode(text, add_special_tokens=False)
    assert TOKENIZER.decode(ids) == text
    assert all(0 <= i < 640 for i in ids)


PIECES = (
    *("<think>", "</think><answer>", ", ", '{"bbox_2d": [', "]}", "```", "12", "red", " red", "'s", " ."),
    *(" ", "  ", "\n", "\r\n", "é", "\u200b", "漢", "🙂", "<", "|", ">", "<|", "|>"),
)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.sampled_from(PIECES), max_size=12))
def test_phrases_and_odd_spaces_come_back(pieces) -> None:
    text = "".join(pieces)
    assert TOKENIZER.decode(TOKENIZER.encode(text, add_special_tokens=False)) == text


def test_the_shipped_tokenizer_is_the_one_the_code_builds(tiny_policy) -> None:
    shipped = tiny_policy.processor.tokenizer
    assert shipped.get_vocab() == TOKENIZER.get_vocab()
    text = 'Give: <think>top left</think><answer>{"bbox_2d": [1, 22, 333, 4]}</answer> ü 漢'
    assert shipped.encode(text) == TOKENIZER.encode(text)
    assert shipped.chat_template == TOKENIZER.chat_template


def test_digits_stand_alone() -> None:
    ids = TOKENIZER.encode("123456", add_special_tokens=False)
    assert [TOKENIZER.decode([i]) for i in ids] == list("123456")


@pytest.mark.parametrize("token", SPECIAL)
def test_text_that_spells_a_special_token_is_refused(tiny_policy, token) -> None:
    processor = tiny_policy.processor
    for text in (token, f"red {token}circle", f"x{token}"):
        with pytest.raises(DataError) as caught:
            processor.render(user(text), ())
        assert token in str(caught.value)


def test_a_special_token_cannot_be_hidden_in_two_parts(tiny_policy) -> None:
    with pytest.raises(DataError, match="im_end"):
        tiny_policy.processor.render(user("<|im_", "end|>"), ())
    image = tiny_policy.processor.prepare(picture((56, 56), 0))
    ids = tiny_policy.processor.render(user("<|im_", ImagePart(0), "end|>"), (image,))
    assert int((ids == TOKENIZER.convert_tokens_to_ids("<|im_end|>")).sum()) == 1  # the template's own


def test_every_role_is_checked(tiny_policy) -> None:
    messages = (Message(role="system", parts=(TextPart("<|im_end|>"),)), *user("hi"))
    with pytest.raises(DataError):
        tiny_policy.processor.render(messages, ())


def test_harmless_text_is_not_refused(tiny_policy) -> None:
    ids = tiny_policy.processor.render(user("a <b> | <|> im_end <think>"), ())
    assert "a <b> | <|> im_end <think>" in tiny_policy.processor.decode(ids)


def test_the_prompt_is_the_template_with_images_expanded(tiny_policy) -> None:
    processor = tiny_policy.processor
    images = tuple(processor.prepare(picture(size, 0)) for size in ((112, 112), (56, 84)))
    ids = processor.render(user("look", ImagePart(0), ImagePart(1), "here"), images)
    pad = "<|image_pad|>"
    wanted = (
        "<|im_start|>user\nlook"
        f"<|vision_start|>{pad * 16}<|vision_end|><|vision_start|>{pad * 6}<|vision_end|>"
        "here<|im_end|>\n<|im_start|>assistant\n"
    )
    assert processor.tokenizer.decode(ids) == wanted


@pytest.mark.parametrize(
    "order", [(), (0,), (1, 0), (0, 0), (0, 1, 1), (0, 2), (1,), (-1, 0)], ids=lambda order: f"{order}"
)
def test_images_must_be_placed_once_each_in_order(tiny_policy, order) -> None:
    """Features fill the placeholders in the order of the images: another order would swap two pictures."""
    processor = tiny_policy.processor
    images = tuple(processor.prepare(picture((112, 112), n)) for n in range(2))
    with pytest.raises(DataError, match=r"place the images \[.*the sample has 2"):
        processor.render(user(*(ImagePart(index) for index in order), "q"), images)


def test_a_template_that_loses_an_image_is_named(tiny_policy) -> None:
    tokenizer = copy.deepcopy(tiny_policy.processor.tokenizer)
    tokenizer.chat_template = "{% for m in messages %}{{ m['role'] }}{% endfor %}"
    processor = Processor(tokenizer, tiny_policy.processor.image_processor, tiny_policy.family)
    with pytest.raises(DataError, match="placed 0 images for 1 image parts"):
        ask(processor, "q", [(112, 112)])


@pytest.mark.parametrize(
    ("size", "processed"),
    [
        ((112, 112), (112, 112)),
        ((140, 84), (140, 84)),
        ((84, 140), (84, 140)),
        ((100, 60), (112, 56)),  # rounded to multiples of 28
        ((1, 1), (56, 56)),  # not below min_pixels
        ((700, 500), (252, 168)),  # not above max_pixels
    ],
)
def test_both_sizes_travel_with_the_patches(tiny_policy, size, processed) -> None:
    image = tiny_policy.processor.prepare(picture(size, 1))
    assert image.frame.original == size
    assert image.frame.processed == processed
    assert image.grid_thw == (1, processed[1] // 14, processed[0] // 14)
    assert image.patches.shape == (image.grid_thw[1] * image.grid_thw[2], 2 * 3 * 14 * 14)
    assert image.patches.dtype == np.float32


def test_grey_and_transparent_images_become_rgb(tiny_policy) -> None:
    grey = Image.new("L", (56, 56), 90)
    prepare = tiny_policy.processor.prepare
    assert np.array_equal(prepare(grey).patches, prepare(grey.convert("RGB")).patches)
    assert prepare(Image.new("RGBA", (56, 56))).grid_thw == (1, 4, 4)


def test_a_sliver_is_a_data_error(tiny_policy) -> None:
    with pytest.raises(DataError, match="1 x 300 pixels"):
        tiny_policy.processor.prepare(Image.new("RGB", (1, 300)))


@pytest.mark.parametrize("reward", ["iou", "ap"])
def test_default_prompts_stay_short(tiny_policy, reward) -> None:
    """At most 16 text tokens besides the sample's own words and the special tokens."""
    config = compose_run(["scale=tiny", f"reward={reward}"])
    source, prompt = config.dataset.build(Split.TRAIN), config.prompt.build()
    processor = tiny_policy.processor
    special = set(processor.tokenizer.convert_tokens_to_ids(list(SPECIAL)))
    for index in range(20):
        sample = source.sample(index)
        images = tuple(processor.prepare(image) for image in sample.images)
        ids = processor.render(prompt.messages(sample), images)
        own = len(processor.encode(sample.question or "; ".join(sample.targets)))
        text = [i for i in ids.tolist() if i not in special]
        assert len(text) - own <= 16
        assert int((ids == processor.image_id).sum()) == 16
        assert own <= 3 + 3 * len(sample.targets)


def test_placeholders_are_banned_and_ends_are_known(tiny_policy) -> None:
    processor = tiny_policy.processor
    names = processor.tokenizer.convert_ids_to_tokens(list(processor.banned_ids))
    assert set(names) == {
        "<|vision_start|>", "<|vision_end|>", "<|vision_pad|>", "<|image_pad|>", "<|video_pad|>"
    }  # fmt: skip
    assert set(processor.tokenizer.convert_ids_to_tokens(sorted(processor.eos_ids))) == {
        "<|im_end|>",
        "<|endoftext|>",
    }


def test_unknown_families_are_named() -> None:
    with pytest.raises(
        UserError, match="model_type 'llava' is not a known family; known: internvl, qwen2_5_vl"
    ):
        family_of("llava", "weights/llava-rl-qwen2_5_vl")
