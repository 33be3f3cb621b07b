"""Which tag layouts give an answer, and which are strict."""

import pytest

from groundrl.parsing.status import ParseStatus
from groundrl.parsing.tags import scan_tags


@pytest.mark.parametrize(
    "text",
    [
        "<think>a</think><answer>b</answer>",
        "<think>a</think>\n\n<answer>b</answer>\n",
        "  <think>\na\n</think> <answer>\nb\n</answer>\n\n",
    ],
)
def test_strict(text) -> None:
    scan = scan_tags(text)
    assert (scan.think, scan.answer, scan.strict, scan.problem) == ("a", "b", True, None)


def test_thoughts_of_several_lines_and_empty_thoughts() -> None:
    assert scan_tags("<think>a\nb</think><answer>c</answer>").think == "a\nb"
    scan = scan_tags("<think></think><answer>b</answer>")
    assert (scan.think, scan.strict) == ("", True)


@pytest.mark.parametrize(
    ("text", "think"),
    [
        ("<answer>b</answer>", None),
        ("well <think>a</think><answer>b</answer>", "a"),
        ("<think>a</think> so <answer>b</answer>", "a"),
        ("<think>a</think><answer>b</answer>.", "a"),
        ("a</think><answer>b</answer>", None),
        ("<think>a<answer>b</answer>", None),
    ],
)
def test_loose_layouts_give_the_answer_but_are_not_strict(text, think) -> None:
    scan = scan_tags(text)
    assert (scan.think, scan.answer, scan.strict, scan.problem) == (think, "b", False, None)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", ParseStatus.NO_ANSWER_TAG),
        ("None", ParseStatus.NO_ANSWER_TAG),
        ("<think>a</think><answer>b", ParseStatus.NO_ANSWER_TAG),
        ("<think>a</think>b</answer>", ParseStatus.NO_ANSWER_TAG),
        ("<Answer>b</Answer>", ParseStatus.NO_ANSWER_TAG),
        ("<answer>b</answer><answer>c</answer>", ParseStatus.DUPLICATE_TAGS),
        ("<answer><answer>b</answer></answer>", ParseStatus.DUPLICATE_TAGS),
        ("<think>a</think><think>a</think><answer>b</answer>", ParseStatus.DUPLICATE_TAGS),
        ("<think>I write <answer> now</think><answer>b</answer>", ParseStatus.DUPLICATE_TAGS),
        ("<think><answer>b</answer></think>", ParseStatus.TAG_ORDER),
        ("<answer><think>a</think>b</answer>", ParseStatus.TAG_ORDER),
        ("<answer>b</answer><think>a</think>", ParseStatus.TAG_ORDER),
        ("</answer>b<answer>", ParseStatus.TAG_ORDER),
        ("</think>a<think><answer>b</answer>", ParseStatus.TAG_ORDER),
        ("<think>a<answer></think>b</answer>", ParseStatus.TAG_ORDER),
    ],
)
def test_no_answer(text, problem) -> None:
    scan = scan_tags(text)
    assert (scan.answer, scan.strict, scan.problem) == (None, False, problem)
