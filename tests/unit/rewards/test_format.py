"""format: the forms, how strict they are, and the released patterns."""

import pytest
from tests.golden.scenes import CAT, NEGATIVE, OVD, REC, answer, fence, listed, sample_of, score, value_of

from groundrl.errors import ConfigError
from groundrl.rewards.base import Compat
from groundrl.rewards.format import Form, FormatConfig
from groundrl.types import Task

BOX = "[0, 0, 1, 1]"
FENCED = answer(fence(listed(CAT)))
BARE = answer('[{"bbox_2d": [0, 0, 1, 1], "label": "cat"}]')
MCQ, POINT = sample_of(Task.mcq), sample_of(Task.point)


@pytest.mark.parametrize(
    ("target", "text", "expected"),
    [
        (REC, answer(BOX), 1),
        (REC, f"<think>a\nb</think>\n<answer>\n{BOX}\n</answer>\n\n", 1),
        (REC, f"<think></think><answer>{BOX}</answer>", 1),
        (REC, answer("None"), 0),
        (REC, answer("here"), 0),
        (REC, answer("[1, 1, 0, 0]"), 0),
        (REC, answer("[[0, 0, 1, 1], [0, 0, 2, 2]]"), 0),
        (REC, f"<answer>{BOX}</answer>", 0),
        (REC, "so " + answer(BOX), 0),
        (REC, answer(BOX) + "ok", 0),
        (REC, answer(BOX) * 2, 0),
        (REC, f"<answer>{BOX}</answer><think>t</think>", 0),
        (OVD, FENCED, 1),
        (OVD, answer("None"), 1),
        (NEGATIVE, answer("None"), 1),
        (OVD, answer("```json\n[]\n```"), 1),
        (OVD, BARE, 0),
        (OVD, answer('```\n[{"bbox_2d": [0, 0, 1, 1], "label": "cat"}]\n```'), 0),
        (OVD, answer('```json\n[{"bbox'), 0),
        (OVD, answer(fence([{"bbox_2d": [1, 1, 0, 0], "label": "cat"}])), 0),
        # one refused item beside a valid one: at least one valid box
        (OVD, answer(fence([{"bbox_2d": [1, 1, 0, 0], "label": "cat"}, *listed(CAT)])), 1),
        (OVD, answer(fence(["cat", "dog"])), 0),
        (POINT, answer('{"point_2d": [5, 5], "label": "cat"}'), 1),
        (POINT, answer('[{"point_2d": [5, 5], "label": "cat"}, {"point_2d": [5], "label": "cat"}]'), 1),
        (POINT, answer('{"point_2d": [5000, 5], "label": "cat"}'), 0),
        (POINT, answer("None"), 0),
        (MCQ, answer("B"), 1),
        (MCQ, answer(""), 0),
        (sample_of(Task.text), answer("a few words"), 1),
        (sample_of(Task.text), "B", 0),
    ],
)
def test_what_the_task_asks_for(target, text, expected) -> None:
    assert value_of(FormatConfig(), target, text) == expected


@pytest.mark.parametrize(
    ("text", "strict", "loose"),
    [
        (answer("anything"), 1, 1),
        (answer(""), 1, 1),
        (f"Well: {answer('B')} is it.", 0, 1),
        ("<think>t</think> so <answer>B</answer>", 0, 1),
        (answer("B") * 2, 0, 0),
        ("<think>t</think>" + answer("B"), 0, 0),
        ("<answer>B</answer>", 0, 0),
        ("<answer>B</answer><think>t</think>", 0, 0),
        ("<think>t<answer>B</answer></think>", 0, 0),
        ("<think>t</think><answer>B", 0, 0),
        ("", 0, 0),
    ],
)
def test_tags_alone(text, strict, loose) -> None:
    for target in (REC, OVD, MCQ):
        form = Form.think_answer
        assert value_of(FormatConfig(form=form), target, text) == strict
        assert value_of(FormatConfig(form=form, strict=False), target, text) == loose


def test_settings() -> None:
    assert value_of(FormatConfig(json_fence=False), OVD, BARE) == 1
    assert value_of(FormatConfig(strict=False), REC, f"Well: {answer(BOX)}") == 1
    assert value_of(FormatConfig(strict=False), REC, f"Well: {answer('here')}") == 0
    empty = "<think> </think><answer>here</answer>"
    assert score(FormatConfig(), REC, empty).detail == {"tags": 1, "body": 0}
    assert score(FormatConfig(require_thought=True), REC, empty).detail == {"tags": 0, "body": 0}
    alone = FormatConfig(form=Form.think_answer, require_thought=True)
    assert score(alone, REC, empty).detail == {"tags": 0, "body": 1}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (answer(f"{{{BOX}}}"), 1),
        (answer(fence(listed(CAT))), 1),
        (answer('{"bbox_2d": [12,3,\n4, 5]}'), 1),
        (f"so {answer(f'{{{BOX}}}')} ok", 1),  # searched, so text may stand around
        (answer(f"{{ [1] {BOX} }} text"), 1),
        ("<think>" + answer(f"{{{BOX}}}") * 2, 1),
        (answer(BOX), 0),  # no braces
        (answer(f"{{}} {BOX}"), 0),
        (answer(f"{{ {BOX}"), 0),
        (answer("{[0, 0, 1.5, 1]}"), 0),
        (answer("{[0, 0, -1, 1]}"), 0),
        (answer("{[0, 0, 1]}"), 0),
        (answer("{[ 0, 0, 1, 1]}"), 0),
        (f"<answer>{{{BOX}}}</answer>", 0),
        (f"<think>t</think> so <answer>{{{BOX}}}</answer>", 0),
        (f"<think>t</think><answer>{{{BOX}}}", 0),
        (f"</think><answer><think>{{{BOX}}}</answer>", 0),
        # the first pair has text between; a later one fits
        (f"<think>t</think> so <answer>x</answer></think>\n<answer>{{{BOX}}}</answer>", 1),
    ],
)
def test_released_search_for_a_box(text, expected) -> None:
    assert value_of(FormatConfig(compat=Compat.released_code), REC, text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (answer(""), 1),
        (answer("B</answer> so <answer>C"), 1),
        ("<think><think></think>\t\n<answer></answer>", 1),
        (answer("B") + " ", 0),
        (" " + answer("B"), 0),
        ("<think></think><answer></answe", 0),
        ("<think></think></answer>", 0),
        ("<think><answer></answer>", 0),
        ("<think>t</think>.<answer>B</answer>", 0),
    ],
)
def test_released_full_match_of_the_tags(text, expected) -> None:
    for target in (OVD, MCQ):
        assert value_of(FormatConfig(compat=Compat.released_code), target, text) == expected
    tags_only = FormatConfig(compat=Compat.released_code, form=Form.think_answer)
    assert value_of(tags_only, REC, text) == expected


@pytest.mark.parametrize("key", ["strict", "json_fence", "require_thought"])
def test_the_released_patterns_have_no_settings(key) -> None:
    with pytest.raises(ConfigError, match="compat=released_code") as caught:
        FormatConfig(compat=Compat.released_code, **{key: key == "require_thought"})
    assert caught.value.key == key
