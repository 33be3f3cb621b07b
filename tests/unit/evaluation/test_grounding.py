"""Where an answer points, and false alarms."""

import pytest

from groundrl.evaluation.grounding import accuracy_name, false_alarm, rec_values
from groundrl.parsing.answer import Answer, ParseStatus, RejectReason
from groundrl.types import LabeledBox, LabeledPoint, Truth

TRUTH = Truth(boxes=(LabeledBox(xyxy=(0, 0, 100, 100)),))


def answer(*boxes, **fields) -> Answer:
    labeled = tuple(LabeledBox(xyxy=xyxy) for xyxy in boxes)
    return Answer(status=ParseStatus.OK, boxes=labeled, **fields)


def test_accuracy_is_strict_at_each_threshold() -> None:
    half, ninety = answer((0, 0, 50, 100)), answer((0, 0, 90, 100))
    assert rec_values(half, TRUTH) == {"iou": 0.5, "acc50": 0, "acc75": 0, "acc90": 0}
    assert rec_values(ninety, TRUTH) == {"iou": 0.9, "acc50": 1, "acc75": 1, "acc90": 0}
    assert rec_values(half, TRUTH, thresholds=(0.25, 0.5)) == {"iou": 0.5, "acc25": 1, "acc50": 0}


def test_no_box_is_no_overlap() -> None:
    nothing = Answer(status=ParseStatus.SEVERAL_BOXES, rejected=(RejectReason.SEVERAL_BOXES,) * 2)
    assert rec_values(nothing, TRUTH) == {"iou": 0, "acc50": 0, "acc75": 0, "acc90": 0}
    assert rec_values(answer((0, 0, 100, 100)), Truth())["iou"] == 0


@pytest.mark.parametrize(("threshold", "name"), [(0.5, "acc50"), (0.75, "acc75"), (0.55, "acc55")])
def test_names(threshold, name) -> None:
    assert accuracy_name(threshold) == name


def test_a_false_alarm_is_any_claim() -> None:
    assert false_alarm(Answer(status=ParseStatus.NONE)) == 0
    assert false_alarm(Answer(status=ParseStatus.BAD_JSON)) == 0
    assert false_alarm(answer((0, 0, 1, 1))) == 1
    refused = Answer(status=ParseStatus.ITEM_REJECTED, rejected=(RejectReason.ZERO_AREA,))
    assert false_alarm(refused) == 1
    assert false_alarm(Answer(status=ParseStatus.OK, points=(LabeledPoint(xy=(1, 1)),))) == 1
