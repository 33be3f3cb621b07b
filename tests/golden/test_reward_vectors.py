"""Golden vectors of the detection rewards.

G = cat [0, 0, 100, 100], dog [200, 200, 300, 300]. The expected values are those of VLM-R1's released
functions, run in isolation; the last test holds the rows where ours differ, and why.
"""

import json

import pytest

from groundrl.rewards.ap import Ap50Config, ApConfig
from groundrl.rewards.odlength import OdLengthConfig
from groundrl.rewards.rubric import RubricConfig
from groundrl.types import ImageFrame, LabeledBox, Rollout, RolloutStatus, Sample, Task, Truth

CAT, DOG = ([0, 0, 100, 100], "cat"), ([200, 200, 300, 300], "dog")
FAR = [400, 400, 450, 450]
FRAME = ImageFrame(original=(640, 480), processed=(640, 480))
TERMS = {"od_ap": ApConfig(), "od_ap50": Ap50Config(), "odLength": OdLengthConfig()}
RUBRIC = RubricConfig(terms=TERMS, task=Task.ovd).build()


def values(text, *truth) -> tuple[float, ...]:
    boxes = tuple(LabeledBox(xyxy=tuple(xyxy), label=label) for xyxy, label in truth)
    sample = Sample(id="s", task=Task.ovd, images=(), truth=Truth(boxes=boxes))
    rollout = Rollout(
        sample_id="s",
        group=0,
        index=0,
        segments=[],
        status=RolloutStatus.FINISHED,
        text=text,
        frames=(FRAME,),
    )
    terms = RUBRIC.score(rollout, sample).terms
    return tuple(terms[name].value for name in TERMS)


def answer(body) -> str:
    return f"<think>t</think><answer>{body}</answer>"


def fenced(*boxes) -> str:
    items = [{"bbox_2d": xyxy, "label": label} for xyxy, label in boxes]
    return answer(f"```json\n{json.dumps(items)}\n```")


@pytest.mark.parametrize(
    ("boxes", "expected"),
    [
        pytest.param([CAT, DOG], (1, 1, 1), id="exact"),
        pytest.param([DOG, CAT], (1, 1, 1), id="exact, other order"),
        pytest.param([CAT], (0.5, 0.5, 0.5), id="one missing"),
        pytest.param([CAT, DOG, (FAR, "cat")], (1, 1, 2 / 3), id="false positive last"),
        pytest.param([(FAR, "cat"), CAT, DOG], (0.75, 0.75, 0.5), id="false positive first"),
        pytest.param([CAT, DOG, (FAR, "unicorn")], (1, 1, 2 / 3), id="unknown label"),
        pytest.param([CAT, CAT, CAT, DOG], (1, 1, 0.5), id="cat three times"),
        pytest.param([(CAT[0], "dog"), (DOG[0], "cat")], (0, 0, 0), id="labels swapped"),
        pytest.param(
            [([10, 10, 110, 110], "cat"), ([210, 210, 310, 310], "dog")], (0.4, 1, 0.4), id="shifted by 10 px"
        ),
        pytest.param([(FAR, "cat"), (FAR, "dog")], (0, 0, 0), id="all wrong"),
        pytest.param([], (0, 0, 0), id="empty list"),
    ],
)
def test_published_vectors(boxes, expected) -> None:
    assert values(fenced(*boxes), CAT, DOG) == pytest.approx(expected, abs=1e-12)


def test_three_true_boxes_and_twenty_four_predictions() -> None:
    truth = [([60 * i, 0, 60 * i + 50, 50], "cat") for i in range(3)]
    assert values(fenced(*truth, *truth * 7), *truth) == pytest.approx((1, 1, 0.125), abs=1e-12)


@pytest.mark.parametrize("body", ["None", "none", "None.", "```json\n[]\n```"])
def test_nothing_there_is_said(body) -> None:
    assert values(answer(body)) == (1, 1, 1)


@pytest.mark.parametrize("text", [fenced(CAT), "None"], ids=["boxes", "None without answer tags"])
def test_nothing_there_is_not_said(text) -> None:
    assert values(text) == (0, 0, 0)


@pytest.mark.parametrize(
    "body",
    [
        '```json\n["cat", "dog"]\n```',
        '```json\n[{"bbox_2d": null, "label": "cat"}]\n```',
        '```json\n[{"bbox_2d": [0, 0, 100], "label": "cat"}]\n```',
        '```json\n[{"bbox_2d": [0, 0, 100, 100]}]\n```',
    ],
    ids=["list of strings", "null box", "three numbers", "no label"],
)
def test_unusable_items_are_worth_nothing(body) -> None:
    assert values(answer(body), CAT, DOG) == (0, 0, 0)


def test_two_fences_read_the_last() -> None:
    both = answer("```json\n[]\n```\n" + fenced(CAT, DOG).split("<answer>")[1].removesuffix("</answer>"))
    assert values(both, CAT, DOG) == (1, 1, 1)


@pytest.mark.parametrize(
    ("text", "truth", "released", "ours"),
    [
        # labels are compared after one normalisation, in every reward
        pytest.param(fenced((CAT[0], "Cat"), (DOG[0], "DOG ")), [CAT, DOG], 0, 1, id="label case"),
        # "None" is a word or an empty list; the released code takes any parse failure for an empty list
        pytest.param(answer("no objects"), [], 1, 0, id="prose on a negative"),
        pytest.param(answer('```json\n[{"bbox'), [], 1, 0, id="malformed on a negative"),
        # bare JSON is an answer (the fence is the format reward's business)
        pytest.param(
            answer(json.dumps([{"bbox_2d": xyxy, "label": label} for xyxy, label in (CAT, DOG)])),
            [CAT, DOG],
            0,
            1,
            id="no fence",
        ),
        pytest.param(
            answer('```json\n{"bbox_2d": [0, 0, 100, 100], "label": "cat"}\n```'),
            [CAT],
            0,
            1,
            id="object, no list",
        ),
        pytest.param(
            answer('```json\n[{"bbox_2d": ["0", "0", "100", "100"], "label": "cat"}]\n```'),
            [CAT],
            0,
            1,
            id="numbers as strings",
        ),
        # the last answer block used to win: several answers, paid for one
        pytest.param(fenced(DOG) + fenced(CAT, DOG), [CAT, DOG], 1, 0, id="two answer blocks"),
    ],
)
def test_where_we_differ_on_purpose(text, truth, released, ours) -> None:
    assert released != ours
    assert values(text, *truth) == (ours, ours, ours)
