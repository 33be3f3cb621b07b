"""The released reading, against the patterns it stands for, and all published terms on hostile text."""

import json
import math
import pickle
import random
import re

import pytest
from tests.golden.scenes import (
    CAT,
    DOG,
    NEGATIVE,
    OVD,
    REC,
    answer,
    fence,
    fenced,
    listed,
    rollout_of,
    score,
    value_of,
)

from groundrl.geometry.boxes import as_array
from groundrl.rewards.ap import Ap50Config, ApConfig
from groundrl.rewards.base import Compat
from groundrl.rewards.cosine import CosineConfig
from groundrl.rewards.format import Form, FormatConfig
from groundrl.rewards.iou import IouConfig
from groundrl.rewards.odlength import OdLengthConfig
from groundrl.rewards.released import (
    ANY_FENCE,
    JSON_FENCE,
    ReleasedItem,
    blocks,
    integer_box,
    matches_format,
    read_items,
    released_iou,
)
from groundrl.rewards.repetition import RepetitionConfig
from groundrl.rewards.weighted_sum import WeightedSumConfig
from groundrl.types import CoordinateSpace, ImageFrame, Missing, Scored, Task

RELEASED = Compat.released_code
PIECES = (
    *("<think>", "</think>", "<answer>", "</answer>", "```json", "```", "\n", " ", ",", "None", "none.", "."),
    *("[", "]", "{", "}", "[0, 0, 100, 100]", "[1,2,3,4]", "[0, 0, 1.5, -2]", '"', "\\", "\ud800", "\u0663"),
    *('{"bbox_2d": [0, 0, 100, 100], "label": "cat"}', '"bbox_2d": ', '"label": ', '"label": ["cat"]', "Dog"),
    *('{"bbox_2d": [NaN, Infinity, 1e999, 5], "label": "cat"}', "9" * 400, "1e400", "null", "true", "[[[["),
    *(
        "[" * 3000,
        '{"bbox_2d": [200, 200, 300, 300]}',
        '{"bbox_2d": "abcd", "label": null}',
        "\u0130",
        "a b ",
    ),
)


ODD = listed(
    CAT, DOG, (CAT[0], "Dog"), ([9, 9, 0, 0], "cat"), ([0, 0, 1], "dog"), ([-1e300, 0, 1e300, 9], "cat")
)
ITEMS = (
    *map(json.dumps, ODD),
    *(piece for piece in PIECES if piece.startswith(("{", "["))),
    *("5", "null", '"cat"', "[0, 0, 90, 90]"),
)


def fuzzed(seed) -> str:
    """Pieces of answers in no order, or a list of odd items; most of them inside the frame of an answer."""
    rng = random.Random(seed)
    body = "".join(rng.choices(PIECES, k=rng.randrange(30)))
    if seed % 2:
        body = ", ".join(rng.choices(ITEMS[: rng.randrange(2, len(ITEMS))], k=rng.randrange(5))) or "None"
    frame = rng.choice(["{}", answer("{}"), answer("```json\n{}\n```"), answer("```json\n[{}]\n```")])
    return frame.format(body)


PATTERNS = {
    "boxed": re.compile(
        r"<think>.*?</think>\s*<answer>.*?\{.*\[\d+,\s*\d+,\s*\d+,\s*\d+\].*\}.*?</answer>", re.DOTALL
    ),
    "tags": re.compile(r"<think>.*?</think>\s*<answer>.*?</answer>", re.DOTALL),
    "box": re.compile(r"\[(\d+),\s*(\d+),\s*(\d+),\s*(\d+)\]"),
    "json": re.compile(r"```json(.*?)```", re.DOTALL),
    "fence": re.compile(r"```(.*?)```", re.DOTALL),
}
TAG_PIECES = (
    "<think>",
    "</think>",
    "<answer>",
    "</answer>",
    "{",
    "}",
    "[1,2, 3,4]",
    " ",
    "\n",
    "x",
    "```",
    "json",
)


def test_the_string_search_agrees_with_the_patterns() -> None:
    found = {"boxed": 0, "tags": 0}
    for seed in range(4000):
        rng = random.Random(seed)
        text = "".join(rng.choices(TAG_PIECES, k=rng.randrange(14)))
        text = (
            text,
            f"<think></think><answer>{text}</answer>",
            f"<think></think><answer>{{{text}}}</answer>",
        )[seed % 3]
        boxed, tags = bool(PATTERNS["boxed"].search(text)), bool(PATTERNS["tags"].fullmatch(text))
        assert (matches_format(text, boxed=True), matches_format(text, boxed=False)) == (boxed, tags), text
        assert list(blocks(text, JSON_FENCE)) == PATTERNS["json"].findall(text)
        assert list(blocks(text, ANY_FENCE)) == PATTERNS["fence"].findall(text)
        found["boxed"] += boxed
        found["tags"] += tags
    assert min(found.values()) > 100  # both outcomes were seen


@pytest.mark.parametrize(
    "text",
    [
        "[1,2,3,4]",
        "a [1] [1, 2, 3] [5,  6,\n7, 8] [1,2,3,4]",
        "[[1,2,3,4]]",
        "[1,2,3,4,5]",
        "[1 ,2,3,4]",
        "[1,2,3,4 ]",
        "[ 1,2,3,4]",
        "[1,2,3,[1,2,3,4]",
        "[1,,3,4]",
        "[\u0661,2,3,4]",
        "[+1,2,3,4]",
        "[1_0,2,3,4]",
        "[\u00b2,2,3,4]",
        "[1,2,3,4",
        "",
    ],
)
def test_the_first_integer_box_agrees_with_the_pattern(text) -> None:
    match = PATTERNS["box"].search(text)
    expected = (tuple(float(number) for number in match.groups()), match.end()) if match else None
    assert integer_box(text) == expected


def test_overlap_has_to_exceed_one_pixel_both_ways() -> None:
    first = as_array([(0, 0, 10, 10)])
    others = as_array(
        [(9, 0, 19, 10), (8.99, 0, 18.99, 10), (0, 9, 10, 19), (0, 0, 1, 100), (math.nan, 0, 9, 9)]
    )
    # 1 px across, 1.01 px across (10.1 of 189.9), 1 px down, a strip 1 px wide, not a number
    assert released_iou(first, others)[0] == pytest.approx([0, 10.1 / 189.9, 0, 0, 0])


def test_items_of_a_document_that_is_no_list() -> None:
    rollout = rollout_of("")
    malformed = ReleasedItem()
    assert read_items('{"a": 1, "b": 2}', rollout) == (malformed, malformed)
    assert read_items('"abc"', rollout) == (malformed,) * 3
    for text in (None, "", "5", "null", "true", "[", "[" * 5000, "None"):
        assert read_items(text, rollout) == ()


def test_items_of_a_list() -> None:
    text = fence(
        [
            *listed(CAT),
            {"bbox_2d": ["0", 0, 9, 9], "label": "x"},
            {"bbox_2d": [1, 2, 3], "label": 5},
            [0, 0, 9, 9],
        ]
    )
    expected = (
        ReleasedItem(xyxy=(0, 0, 100, 100), label="cat"),
        ReleasedItem(label="x"),
        ReleasedItem(label=5.0),
        ReleasedItem(),
    )
    assert read_items(text.removeprefix("```json").removesuffix("```"), rollout_of("")) == expected
    assert read_items('[{"bbox_2d": [0, 0, 1, 1], "label": "a"}]', rollout_of("", frames=())) == (
        ReleasedItem(label="a"),
    )


def test_boxes_are_converted_and_not_clipped() -> None:
    frame = ImageFrame(original=(100, 100), processed=(50, 200))
    resized = CoordinateSpace.PIXEL_RESIZED
    inside, beyond = (answer(f"[0, 0, {x}, 200]") for x in (50, 100))
    half = rollout_of(inside, frames=(frame,), space=resized)
    assert value_of(IouConfig(compat=RELEASED), REC, half) == 1
    double = rollout_of(beyond, frames=(frame,), space=resized)  # twice as wide as the image
    assert value_of(IouConfig(compat=RELEASED), REC, double) == 0.5
    assert value_of(IouConfig(), REC, double) == 1


def test_the_first_answer_block_is_read_for_a_box_and_the_last_for_a_list() -> None:
    first_right = answer("[0, 0, 100, 100]") + answer("[0, 0, 50, 100]")
    assert value_of(IouConfig(compat=RELEASED), REC, first_right) == 1
    assert value_of(IouConfig(compat=RELEASED, binary_at=0.5), REC, first_right) == 1
    assert value_of(IouConfig(compat=RELEASED, binary_at=0.5), REC, answer("[0, 0, 50, 100]")) == 0
    assert value_of(ApConfig(compat=RELEASED), OVD, fenced(CAT, DOG) + fenced(CAT)) == 0.5


def test_detail_counts_what_the_released_code_read() -> None:
    text = answer(fence(["x", *listed(CAT, DOG, CAT)]))
    assert score(ApConfig(compat=RELEASED), OVD, text).detail == {"truths": 2, "items": 4}
    assert score(OdLengthConfig(compat=RELEASED), OVD, text).detail == {"map": 1, "length_factor": 0.5}


CASES = [
    *((config(compat=compat), target) for config in (ApConfig, Ap50Config, OdLengthConfig, WeightedSumConfig)
      for compat in Compat for target in (OVD, NEGATIVE)),
    *((config(compat=compat), REC) for config in (IouConfig, FormatConfig) for compat in Compat),
    *((config(compat=compat), OVD) for config in (RepetitionConfig, FormatConfig, CosineConfig)
      for compat in Compat),
    (FormatConfig(form=Form.think_answer, strict=False), REC),
]  # fmt: skip


@pytest.mark.parametrize(("config", "target"), CASES, ids=lambda case: type(case).__name__)
def test_no_text_makes_a_term_raise_or_leave_its_range(config, target) -> None:
    low = {RepetitionConfig: -1.0, CosineConfig: -0.5}.get(type(config), 0.0)
    seen = set()
    for seed in range(300):
        text = fuzzed(seed)
        for frames in (rollout_of(text, tokens=[seed]), rollout_of(text, frames=())):
            scored = score(config, target, frames, {"weighted_sum": Scored(seed % 2)})
            assert isinstance(scored, Scored)
            assert all(map(math.isfinite, (scored.value, *scored.detail.values()))), text
            assert low <= scored.value <= 1, text
            seen.add(scored.value)
    assert len(seen) > 1


@pytest.mark.parametrize(
    "piece",
    [
        "</think>",
        "<think></think>",
        "[",
        "[0, 0, ",
        "{",
        "```",
        "```json",
        "</think> ",
        " ",
        '"bbox_2d"',
        "[{ ",
    ],
)
def test_two_megabytes_of_one_thing(piece) -> None:
    """Worth nothing, and read in linear time: a quadratic search would not come back."""
    text = "<think>" + piece * (2_000_000 // len(piece))
    assert value_of(FormatConfig(compat=RELEASED), REC, text) == 0
    assert value_of(IouConfig(compat=RELEASED), REC, f"<answer>{text}</answer>") == 0
    assert value_of(ApConfig(compat=RELEASED), OVD, f"<answer>{text}</answer>") == 0
    assert value_of(WeightedSumConfig(compat=RELEASED), OVD, text) == 0
    assert -1 <= value_of(RepetitionConfig(compat=RELEASED), OVD, text) <= 0


def test_terms_are_values_that_travel() -> None:
    for config, _ in CASES:
        assert pickle.loads(pickle.dumps(config.build())) == config.build()


def test_a_missing_value_is_no_error() -> None:
    missing = Missing("not asked")
    assert score(CosineConfig(), OVD, "x", {"weighted_sum": missing}) is missing
    assert CosineConfig().build().tasks == {Task.ovd}
