"""Golden vectors of the length, repetition, box and format rewards: VLM-R1's released functions, run in
isolation."""

import json

import pytest
from tests.golden.scenes import OVD, answer, fenced, listed, rollout_of, sample_of, score, value_of

from groundrl.rewards.base import Compat
from groundrl.rewards.cosine import CosineConfig
from groundrl.rewards.format import FormatConfig
from groundrl.rewards.iou import IouConfig
from groundrl.rewards.repetition import RepetitionConfig
from groundrl.types import Scored, Task

PAPER, RELEASED = Compat.paper, Compat.released_code
LENGTHS = (0, 128, 256, 512, 768, 1024, 1280, 1536, 2048)
# 1 - .5 * (1 - cos(pi * L / 1024)) / 2, with cos(pi/8) = .92388 and cos(pi/4) = .70711
RIGHT = (1, 0.98097, 0.92678, 0.75, 0.57322, 0.5)
# -.5 + .5 * (1 - cos) / 2
WRONG = (-0.5, -0.48097, -0.42678, -0.25, -0.07322, 0)


def cosine(compat, length, correctness) -> float:
    scored = score(
        CosineConfig(compat=compat),
        OVD,
        rollout_of("", tokens=[length]),
        {"weighted_sum": Scored(correctness)},
    )
    assert isinstance(scored, Scored)
    return scored.value


@pytest.mark.parametrize("correctness", [0.0, 0.69, 0.7, 1.0])
def test_the_released_cosine_knows_no_wrong_answer_and_no_bound(correctness) -> None:
    expected = (*RIGHT, 0.57322, 0.75, 1)
    assert [cosine(RELEASED, length, correctness) for length in LENGTHS] == pytest.approx(expected, abs=5e-6)


def test_the_intended_cosine() -> None:
    right = [cosine(PAPER, length, 0.7) for length in LENGTHS]
    assert right == pytest.approx((*RIGHT, 0.5, 0.5, 0.5), abs=5e-6)
    wrong = [cosine(PAPER, length, 0.699) for length in LENGTHS]
    assert wrong == pytest.approx((*WRONG, 0, 0, 0), abs=5e-6)


A, B = ([0, 0, 9, 9], "a"), ([5, 5, 9, 9], "b")
ITEM = '{"bbox_2d": [0, 0, 100, 100], "label": "cat"}'
# 24 words: the opening, three items of seven words (the first word of the first is its own), two more of
# which the last is cut. Of the 19 runs of six, two hold the opening or the first word after it, seven lie
# inside the period, and the last one ends in the cut word: 10 distinct, 1 - 10/19 = .4737
TRUNCATED = f'<think>t</think><answer>```json\n[{ITEM}, {ITEM}, {ITEM}, {{"bbox_2d": [0'


@pytest.mark.parametrize("compat", Compat)
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param(fenced(A, A, B), -1 / 3, id="one duplicate of three"),
        pytest.param(fenced(A, A, A, A, A), -0.8, id="five equal"),
        pytest.param(fenced(A, (A[0], "b")), 0, id="same box, other label"),
        pytest.param(fenced(*[([i, 0, 9 + i, 9], "a") for i in range(5)]), 0, id="jitter of one pixel"),
        pytest.param("a b c d e f " * 2, -1 / 7, id="words"),  # 7 runs of six, the last like the first
        pytest.param(TRUNCATED, -9 / 19, id="truncated JSON of repeats"),
        pytest.param("a a a a a", 0, id="fewer than six words"),
        pytest.param("", 0, id="nothing"),
        pytest.param(answer(json.dumps(listed(A, A))), -0.5, id="no fence"),
        pytest.param(answer(f"```\n{json.dumps(listed(A, A))}\n```"), -0.5, id="fence without a language"),
    ],
)
def test_repetition(compat, text, expected) -> None:
    assert value_of(RepetitionConfig(compat=compat), OVD, text) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize(
    ("true", "body", "released", "paper"),
    [
        ([0, 0, 10, 10], "[9, 0, 19, 10]", 0, 10 / 190),  # an overlap of one pixel
        ([0, 0, 10, 10], "[8, 0, 18, 10]", 20 / 180, 20 / 180),  # of two: .111
        ([0, 0, 10, 10], "[10, 10, 0, 0]", 0, 0),  # inverted both ways
        ([0, 0, 10, 10], "[5, 5, 5, 5]", 0, 0),
        ([5, 5, 5, 5], "[5, 5, 5, 5]", 0, 0),  # ZeroDivisionError in the released code, swallowed
        ([0, 0, 10, 10], "[0, 0, 10.0, 10]", 0, 1),
        ([0, 0, 10, 10], "[-1, 0, 10, 10]", 0, 1),  # clipped
        ([0, 0, 10, 10], "[0, 0, 10]", 0, 0),
        ([0, 0, 10, 10], "[0, 0, 10, 10, 0]", 0, 0),
        ([0, 0, 10, 10], "[[0, 0, 10, 10], [20, 20, 30, 30]]", 1, 0),  # the first is paid
        ([0, 0, 10, 10], "it is [1] at [0, 0, 10, 10]", 1, 0),
    ],
)
def test_iou(true, body, released, paper) -> None:
    sample = sample_of(Task.rec, (true, ""))
    assert value_of(IouConfig(compat=RELEASED), sample, answer(body)) == pytest.approx(released, abs=1e-12)
    assert value_of(IouConfig(compat=PAPER), sample, answer(body)) == pytest.approx(paper, abs=1e-12)


@pytest.mark.parametrize(
    ("text", "released", "paper"),
    [
        (answer("B"), 1, 1),
        ("<think></think><answer>B</answer>", 1, 1),
        (answer("A</answer><answer>B"), 1, 0),  # duplicated answer tags
        ("so " + answer("B"), 0, 0),
        (answer("B") + "\n", 0, 1),
        ("<think>a\nb</think>\n \n<answer>B\n</answer>", 1, 1),
        ("<think>t</think> so <answer>B</answer>", 0, 0),
        ("<answer>B</answer>", 0, 0),
    ],
)
def test_format_of_a_question(text, released, paper) -> None:
    sample = sample_of(Task.text)
    assert value_of(FormatConfig(compat=RELEASED), sample, text) == released
    assert value_of(FormatConfig(compat=PAPER), sample, text) == paper
