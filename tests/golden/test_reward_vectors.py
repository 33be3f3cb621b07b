"""Golden vectors of the detection rewards.

G = cat [0, 0, 100, 100], dog [200, 200, 300, 300]. The expected values are those of VLM-R1's released
functions, run in isolation; where `paper` differs, both values stand in the row, and why.
Columns: od_ap, od_ap50, odLength, weighted_sum.
"""

import json

import pytest
from tests.golden.scenes import CAT, DOG, FAR, answer, fence, fenced, listed, sample_of, value_of

from groundrl.rewards.ap import Ap50Config, ApConfig
from groundrl.rewards.base import Compat
from groundrl.rewards.odlength import OdLengthConfig
from groundrl.rewards.weighted_sum import WeightedSumConfig
from groundrl.types import Task

TERMS = (ApConfig, Ap50Config, OdLengthConfig, WeightedSumConfig)
PAPER, RELEASED = Compat.paper, Compat.released_code


def values(compat, text, *truth) -> tuple[float, ...]:
    sample = sample_of(Task.ovd, *truth)
    return tuple(value_of(term(compat=compat), sample, text) for term in TERMS)


@pytest.mark.parametrize("compat", Compat)
@pytest.mark.parametrize(
    ("boxes", "expected"),
    [
        pytest.param([CAT, DOG], (1, 1, 1, 1), id="exact"),
        pytest.param([DOG, CAT], (1, 1, 1, 1), id="exact, other order"),
        # position 1/2, completeness 1 - (1/2 + 0)/2 = .75: .35 + .225. AP: one category at 1, one at 0
        pytest.param([CAT], (0.5, 0.5, 0.5, 0.575), id="one missing"),
        # position 1, completeness 1 - (0 + 1/3)/2 = 5/6: .7 + .25. Length factor 2/3
        pytest.param([CAT, DOG, (FAR, "cat")], (1, 1, 2 / 3, 0.95), id="false positive last"),
        # cat: precision 1/2 at its only true positive: (1/2 + 1)/2
        pytest.param([(FAR, "cat"), CAT, DOG], (0.75, 0.75, 0.5, 0.95), id="false positive first"),
        pytest.param([CAT, DOG, (FAR, "unicorn")], (1, 1, 2 / 3, 0.95), id="unknown label"),
        # two of four are false alarms: completeness .75: .7 + .225
        pytest.param([CAT, CAT, CAT, DOG], (1, 1, 0.5, 0.925), id="cat three times"),
        # both pairs are matched with the wrong label: position 0, completeness 1
        pytest.param([(CAT[0], "dog"), (DOG[0], "cat")], (0, 0, 0, 0.3), id="labels swapped"),
        # IoU 90 * 90 / (2 * 10000 - 8100) = 81/119 = .681 passes .5, .55, .6, .65 of ten; .7 * 81/119 + .3
        pytest.param(
            [([10, 10, 110, 110], "cat"), ([210, 210, 310, 310], "dog")],
            (0.4, 1, 0.4, 0.7 * 81 / 119 + 0.3),
            id="shifted by 10 px",
        ),
        pytest.param([(FAR, "cat"), (FAR, "dog")], (0, 0, 0, 0), id="all wrong"),
        pytest.param([], (0, 0, 0, 0), id="empty list"),
    ],
)
def test_published_vectors(compat, boxes, expected) -> None:
    assert values(compat, fenced(*boxes), CAT, DOG) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("compat", Compat)
def test_three_true_boxes_and_twenty_four_predictions(compat) -> None:
    truth = [([60 * i, 0, 60 * i + 50, 50], "cat") for i in range(3)]
    # 21 of 24 are false alarms: completeness 1 - (7/8)/2 = 9/16: .7 + .3 * 9/16. Length factor 3/24
    expected = (1, 1, 0.125, 0.86875)
    assert values(compat, fenced(*truth, *truth * 7), *truth) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("compat", Compat)
@pytest.mark.parametrize("body", ["None", "none", "None."])
def test_nothing_there_is_said(compat, body) -> None:
    assert values(compat, answer(body)) == (1, 1, 1, 1)
    assert values(compat, answer(body), CAT, DOG) == (0, 0, 0, 0)


@pytest.mark.parametrize("compat", Compat)
def test_boxes_where_nothing_is(compat) -> None:
    assert values(compat, fenced(CAT)) == (0, 0, 0, 0)


@pytest.mark.parametrize("compat", Compat)
@pytest.mark.parametrize(
    "items",
    [
        ["cat", "dog"],
        [{"bbox_2d": None, "label": "cat"}],
        [{"bbox_2d": [0, 0, 100], "label": "cat"}],
        [{"bbox_2d": [0, 0, 100, 100]}],
    ],
    ids=["list of strings", "null box", "three numbers", "no label"],
)
def test_unusable_items_are_worth_nothing(compat, items) -> None:
    assert values(compat, answer(fence(items)), CAT, DOG) == (0, 0, 0, 0)


FENCED_LABEL = ([0, 0, 100, 100], "a```b")
EXACT = fence(listed(CAT, DOG))


@pytest.mark.parametrize(
    ("text", "truth", "released", "paper"),
    [
        # labels are compared after one normalisation, in every reward; weighted_sum lower-cases
        pytest.param(
            fenced((CAT[0], "Cat"), (DOG[0], "DOG")), [CAT, DOG], (0, 0, 0, 1), (1, 1, 1, 1), id="case"
        ),
        pytest.param(
            fenced((CAT[0], " cat"), DOG), [CAT, DOG], (0.5, 0.5, 0.5, 0.65), (1, 1, 1, 1), id="blanks"
        ),
        # "None" is a word or an empty list, inside answer tags; the released AP takes a parse failure for it
        pytest.param(answer("no objects"), [], (1, 1, 1, 0), (0, 0, 0, 0), id="prose on a negative"),
        pytest.param(
            answer('```json\n[{"bbox'), [], (1, 1, 1, 0), (0, 0, 0, 0), id="malformed on a negative"
        ),
        pytest.param(
            answer("```json\n[]\n```"), [], (1, 1, 1, 0), (1, 1, 1, 1), id="empty list on a negative"
        ),
        pytest.param("None", [], (0, 0, 0, 1), (0, 0, 0, 0), id="None without answer tags"),
        # bare JSON is an answer (the fence is the format reward's business)
        pytest.param(
            answer(json.dumps(listed(CAT, DOG))), [CAT, DOG], (0, 0, 0, 0), (1, 1, 1, 1), id="no fence"
        ),
        pytest.param(answer(fence(listed(CAT)[0])), [CAT], (0, 0, 0, 0), (1, 1, 1, 1), id="object, no list"),
        pytest.param(
            fenced((["0", "0", "100", "100"], "cat")),
            [CAT],
            (0, 0, 0, 0),
            (1, 1, 1, 1),
            id="numbers as strings",
        ),
        # the last answer block wins: several answers, paid for one
        pytest.param(
            fenced(DOG) + fenced(CAT, DOG), [CAT, DOG], (1, 1, 1, 1), (0, 0, 0, 0), id="two answer blocks"
        ),
        pytest.param(
            answer(f"{fence([])}\n{EXACT}"),
            [CAT, DOG],
            (1, 1, 1, 0),
            (1, 1, 1, 1),
            id="two fences, last right",
        ),
        pytest.param(
            answer(f"{EXACT}\n{fence([])}"),
            [CAT, DOG],
            (0, 0, 0, 1),
            (0, 0, 0, 0),
            id="two fences, first right",
        ),
        # a fence inside a label ends the released block in the middle of the JSON
        pytest.param(fenced(FENCED_LABEL), [FENCED_LABEL], (0, 0, 0, 0), (1, 1, 1, 1), id="fence in a label"),
        # refused items are claims: |P| = 3, and 1 - (0 + 1/3)/2 = 5/6
        pytest.param(
            answer(fence([*listed(CAT, DOG), {"bbox_2d": [1], "label": "cat"}])),
            [CAT, DOG],
            (1, 1, 2 / 3, 0.95),
            (1, 1, 2 / 3, 0.95),
            id="refused item",
        ),
    ],
)
def test_rows_where_the_two_may_differ(text, truth, released, paper) -> None:
    assert values(RELEASED, text, *truth) == pytest.approx(released, abs=1e-12)
    assert values(PAPER, text, *truth) == pytest.approx(paper, abs=1e-12)


def test_a_label_left_out_inherits_the_one_before_in_the_released_sum() -> None:
    second = ([200, 200, 300, 300], "cat")
    text = answer(fence([*listed(CAT), {"bbox_2d": second[0]}]))
    # AP: half of the recall levels (51 of 101), at precision 1
    half = 51 / 101
    assert values(RELEASED, text, CAT, second) == pytest.approx((half, half, half, 1), abs=1e-12)
    # refused: one of two missed, one of two a false alarm: .7 * .5 + .3 * .5
    assert values(PAPER, text, CAT, second) == pytest.approx((half, half, half, 0.5), abs=1e-12)
