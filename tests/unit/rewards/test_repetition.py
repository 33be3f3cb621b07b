"""repetition: what counts as one item, when words count, and what a policy could try."""

import json

import pytest
from tests.golden.scenes import (
    CAT,
    DOG,
    OVD,
    answer,
    fence,
    fenced,
    listed,
    rollout_of,
    sample_of,
    score,
    value_of,
)

from groundrl.errors import ConfigError
from groundrl.parsing.answer import parse_rollout
from groundrl.parsing.config import ParsingConfig
from groundrl.rewards.base import Compat, ScoreContext
from groundrl.rewards.repetition import RepetitionConfig
from groundrl.types import RolloutStatus, Task

PAPER, RELEASED = Compat.paper, Compat.released_code


def both(sample, text) -> tuple[float, float]:
    return tuple(value_of(RepetitionConfig(compat=compat), sample, text) for compat in (RELEASED, PAPER))


def item(box, label="cat", **others) -> dict:
    return {"bbox_2d": box, "label": label, **others}


@pytest.mark.parametrize(
    ("items", "released", "paper"),
    [
        ([item([0, 0, 9, 9]), item(["0", 0.0, "9.0", 9])], 0, -0.5),  # other spellings of one item
        ([item([0, 0, 9, 9]), item([0, 0, 9, 9], " CAT")], 0, -0.5),
        ([item([0, 0, 9, 9], id=1), item([0, 0, 9, 9], id=2)], -0.5, -0.5),  # what else it holds is no excuse
        ([item([0, 0, 9, 9], image=0), item([0, 0, 9, 9], image=1)], -0.5, 0),  # boxes on two images
        ([item([9, 9, 0, 0])] * 4, -0.75, -0.75),  # refused ones are items
        ([item([0, 0, 9])] * 2 + [item(None)] * 2, -0.5, -0.5),
        ([item([0, 0, 9, 9], "x" * 2000)] * 2, -0.5, -0.5),
        ([item([0, 0, 9, 9], ["cat"])] * 2, -0.5, -0.5),
        ([[0, 0, 9, 9], [0, 0, 9, 9]], 0, -0.5),  # bare boxes; ten words all told, no run of six twice
        (["cat", "cat", "cat"], 0, -2 / 3),
    ],
)
def test_items(items, released, paper) -> None:
    assert both(OVD, answer(fence(items))) == pytest.approx((released, paper))


def test_detail_says_whether_items_or_words_were_compared() -> None:
    assert score(RepetitionConfig(), OVD, fenced(CAT, CAT, DOG)).detail == {"items": 3}
    assert score(RepetitionConfig(), OVD, answer("a a")).detail == {"items": 0}


def test_points_are_items() -> None:
    points = [{"point_2d": [5, 5], "label": "cat"}] * 2 + [{"point_2d": [6, 5], "label": "cat"}]
    assert value_of(RepetitionConfig(), sample_of(Task.point), answer(json.dumps(points))) == pytest.approx(
        -1 / 3
    )


def test_runs_of_several_items() -> None:
    config = RepetitionConfig(item_n=2)
    # a b a b: pairs ab, ba, ab
    assert value_of(config, OVD, fenced(CAT, DOG, CAT, DOG)) == pytest.approx(-1 / 3)
    assert value_of(config, OVD, fenced(CAT)) == 0


def test_words_are_lower_cased_runs_of_n() -> None:
    text = sample_of(Task.text)
    assert value_of(RepetitionConfig(text_n=1), text, "Yes yes YES no") == -0.5
    assert value_of(RepetitionConfig(text_n=2), text, "a b a b a") == -0.5  # ab ba ab ba
    assert value_of(RepetitionConfig(text_n=3), text, "a a") == 0


@pytest.mark.parametrize("compat", Compat)
def test_a_loop_of_one_word_is_nearly_all_repetition(compat) -> None:
    # 1005 words, 1000 runs of six, one of them distinct
    assert value_of(RepetitionConfig(compat=compat), OVD, "loop " * 1005) == pytest.approx(-0.999)


def test_an_answer_that_lists_nothing_is_judged_by_its_words() -> None:
    thought = "<think>" + "so it goes on and on " * 4 + "</think><answer>{}</answer>"
    # 25 words, 20 runs of six; the first and the last hold a tag, the 18 between them repeat a period of six
    for body in ("None", "cat"):
        assert both(OVD, thought.format(body)) == pytest.approx((-(1 - 8 / 20), -(1 - 8 / 20)))


def test_repeated_answer_blocks_are_judged_by_their_words_or_by_the_first_fence() -> None:
    # paper: repeated tags leave no answer. The opening, five times 14 words of items, the four words that
    # join two blocks and the closing make 76 words, 71 runs; the first, the last and a period of 15 differ
    assert both(OVD, fenced(CAT, DOG) * 5) == pytest.approx((0, -54 / 71))


def test_a_salvaged_list_is_judged_by_the_items_that_were_kept() -> None:
    text = answer(fence(listed(CAT, CAT, CAT, DOG)))[: -len(', 300], "label": "dog"}]\n```</answer>')]
    cut = rollout_of(text, status=RolloutStatus.TRUNCATED_LENGTH)
    kept = parse_rollout(cut, OVD, ParsingConfig(salvage=True))
    scored = RepetitionConfig().build().score(cut, OVD, ScoreContext(answer=kept))
    assert (scored.value, scored.detail) == (pytest.approx(-2 / 3), {"items": 3})


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        # any fence before a bracketed list; a json fence before any fence, wherever they stand
        (f"{json.dumps(listed(CAT))} ```\n{json.dumps(listed(CAT, CAT))}\n```", -0.5),
        (f"```\n{json.dumps(listed(CAT))}\n``` {fence(listed(CAT, CAT))}", -0.5),
        (fence(listed(CAT, CAT)) + fence(listed(CAT)), -0.5),
        # text before the list, nested brackets inside it
        (f"boxes [1] are {json.dumps(listed(CAT, CAT, DOG))} done", -1 / 3),
        # a fence with nothing usable falls to the words
        ("```json\n[]\n``` a b c", 0),
        ('[{"bbox_2d": 1, "label": 2}', 0),
    ],
)
def test_where_the_released_code_looks(text, expected) -> None:
    assert value_of(RepetitionConfig(compat=RELEASED), OVD, text) == pytest.approx(expected)


@pytest.mark.parametrize("key", ["item_n", "text_n"])
def test_bad_settings_name_their_key(key) -> None:
    with pytest.raises(ConfigError) as caught:
        RepetitionConfig(**{key: 0})
    assert caught.value.key == key
