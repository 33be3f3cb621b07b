"""What must hold for any answer: no order, padding, copy or refused item raises a hardened reward."""

import json
import math
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from groundrl.geometry.boxes import iou
from groundrl.parsing.answer import Answer, ParseStatus, RejectReason, parse_rollout
from groundrl.rewards.ap import ApConfig
from groundrl.rewards.ap_strict import StrictApConfig
from groundrl.rewards.base import ScoreContext
from groundrl.rewards.dynamic_iou import DynamicIouConfig
from groundrl.rewards.f1 import F1Config
from groundrl.rewards.giou import GiouConfig, generalised_iou
from groundrl.rewards.hungarian import HungarianConfig
from groundrl.rewards.overlong import OverlongConfig
from groundrl.rewards.point import PointConfig
from groundrl.rewards.repetition_box import RepetitionBoxConfig
from groundrl.rollout.written import written_rollout
from groundrl.types import ImageFrame, LabeledBox, LabeledPoint, Sample, Task, Truth

steady = settings(derandomize=True, deadline=None, max_examples=100)

FRAME = ImageFrame(original=(640, 480), processed=(640, 480))
ROLLOUT = written_rollout("s", "", [FRAME])
HARDENED = {"ap_strict": StrictApConfig(), "f1": F1Config(), "hungarian": HungarianConfig()}
RANGES = {
    "ap_strict": (StrictApConfig(), 0, 1),
    "f1": (F1Config(), 0, 1),
    "hungarian": (HungarianConfig(), 0, 1),
    "repetition_box": (RepetitionBoxConfig(), -1, 0),
    "giou": (GiouConfig(), -1, 1),
    "dynamic_iou": (DynamicIouConfig(), 0, 1),
    "point": (PointConfig(), 0, 1),
    "overlong": (OverlongConfig(max_length=8, cache=8), -1, 0),
}
ROUNDING = 1e-12


def corners(x, y, width, height) -> tuple[float, float, float, float]:
    return (float(x), float(y), float(x + width), float(y + height))


SMALL = st.builds(corners, st.integers(0, 12), st.integers(0, 12), st.integers(1, 12), st.integers(1, 12))
LABEL = st.sampled_from(["cat", "Cat ", "dog"])
BOXES = st.lists(st.builds(LabeledBox, xyxy=SMALL, label=LABEL, image=st.integers(0, 1)), max_size=6).map(
    tuple
)
ANY = st.floats(allow_nan=True, allow_infinity=True)
WILD = st.builds(LabeledBox, xyxy=st.tuples(ANY, ANY, ANY, ANY), label=LABEL)
OVERLAPPING = st.tuples(BOXES.filter(bool), BOXES)
"""True boxes, which may overlap each other, and answered ones."""


def answered(boxes, *, rejected=0) -> Answer:
    status = ParseStatus.ITEM_REJECTED if rejected else ParseStatus.OK if boxes else ParseStatus.NONE
    return Answer(status=status, boxes=tuple(boxes), rejected=(RejectReason.WRONG_COUNT,) * rejected)


def value(config, truths, answer, task=Task.ovd) -> float:
    sample = Sample(id="s", task=task, images=(), truth=Truth(boxes=tuple(truths)))
    return config.build().score(ROLLOUT, sample, ScoreContext(answer=answer)).value


hardened = pytest.mark.parametrize("config", HARDENED.values(), ids=HARDENED)


@steady
@given(SMALL, SMALL, st.integers(-10, 10), st.sampled_from([2.0**-20, 0.5, 4.0, 2.0**40]))
def test_iou_is_symmetric_bounded_and_free_of_place_and_unit(first, second, shift, unit) -> None:
    found = iou(first, second)
    assert 0 <= found == iou(second, first) <= 1
    moved = [tuple(unit * (x + shift) for x in box) for box in (first, second)]  # exact in binary
    assert iou(*moved) == found


@steady
@given(SMALL, SMALL, st.integers(-10, 10), st.floats(1e-6, 1e6))
def test_giou_is_at_most_iou_and_free_of_place_and_unit(first, second, shift, unit) -> None:
    found = generalised_iou(first, second)
    assert -1 < found <= min(1, iou(first, second) + ROUNDING)
    assert found == pytest.approx(generalised_iou(second, first), abs=ROUNDING)
    moved = [tuple(unit * (x + shift) for x in box) for box in (first, second)]
    assert generalised_iou(*moved) == pytest.approx(found, abs=1e-9)
    assert generalised_iou(first, first) == 1


@steady
@given(st.tuples(ANY, ANY, ANY, ANY), st.tuples(ANY, ANY, ANY, ANY))
def test_giou_of_any_numbers_is_finite(first, second) -> None:
    assert -1 <= generalised_iou(first, second) <= 1


@hardened
@steady
@given(sides=OVERLAPPING, data=st.data())
def test_the_order_of_emission_is_nothing(config, sides, data) -> None:
    truths, boxes = sides
    shuffled = data.draw(st.permutations(boxes))
    before, after = value(config, truths, answered(boxes)), value(config, truths, answered(shuffled))
    assert after == pytest.approx(before, abs=ROUNDING)
    other = data.draw(st.permutations(truths))
    assert value(config, other, answered(boxes)) == pytest.approx(before, abs=ROUNDING)


def test_plain_ap_depends_on_the_order_of_emission() -> None:
    cat, dog = ((0, 0, 100, 100), "cat"), ((200, 200, 300, 300), "dog")
    truths = [LabeledBox(xyxy=xyxy, label=label) for xyxy, label in (cat, dog)]
    wrong = LabeledBox(xyxy=(400, 0, 500, 100), label="cat")
    assert value(ApConfig(), truths, answered([*truths, wrong])) == 1
    assert value(ApConfig(), truths, answered([wrong, *truths])) == pytest.approx(0.75)
    for config in HARDENED.values():
        assert value(config, truths, answered([*truths, wrong])) < 1


@hardened
@steady
@given(sides=OVERLAPPING, place=st.integers(0, 6), far=SMALL, label=st.sampled_from(["cat", "unicorn"]))
def test_a_box_that_hits_nothing_never_raises(config, sides, place, far, label) -> None:
    truths, boxes = sides
    x1, y1, x2, y2 = far
    miss = LabeledBox(xyxy=(x1 + 100, y1, x2 + 100, y2), label=label)
    padded = [*boxes[:place], miss, *boxes[place:]]
    assert value(config, truths, answered(padded)) <= value(config, truths, answered(boxes)) + ROUNDING
    if value(config, truths, answered(truths)) == value(config, truths, answered(boxes)) == 1:
        assert value(config, truths, answered(padded)) < 1


@hardened
@steady
@given(sides=OVERLAPPING, count=st.integers(1, 4))
def test_a_refused_item_never_raises(config, sides, count) -> None:
    truths, boxes = sides
    longer = value(config, truths, answered(boxes, rejected=count))
    assert longer <= value(config, truths, answered(boxes)) + ROUNDING
    assert value(config, (), answered(boxes, rejected=count)) == 0


@hardened
@steady
@given(cells=st.lists(st.integers(0, 5), min_size=1, max_size=4, unique=True), boxes=BOXES, data=st.data())
def test_a_copy_never_raises_where_true_boxes_are_apart(config, cells, boxes, data) -> None:
    """Where true boxes overlap, a copy may hit a second one; see test_hardened.py."""
    truths = [LabeledBox(xyxy=corners(13 * cell, 0, 12, 12), label="cat") for cell in cells]
    copied = data.draw(st.sampled_from([*truths, *boxes]))
    once = [*boxes, copied]
    assert value(config, truths, answered([*once, copied])) <= (
        value(config, truths, answered(once)) + ROUNDING
    )


@hardened
@steady
@given(sides=OVERLAPPING, data=st.data())
def test_an_unknown_label_never_raises(config, sides, data) -> None:
    truths, boxes = sides
    renamed = [box._replace(label="unicorn") if data.draw(st.booleans()) else box for box in boxes]
    before = value(config, truths, answered(boxes))
    assert value(config, truths, answered(renamed)) <= before + ROUNDING


@hardened
@steady
@given(st.lists(st.tuples(SMALL, LABEL), min_size=1, max_size=6))
def test_the_truth_earns_exactly_one(config, items) -> None:
    truths = [LabeledBox(xyxy=xyxy, label=label) for xyxy, label in items]
    assert value(config, truths, answered(truths[::-1])) == 1


@pytest.mark.parametrize("name", RANGES)
@steady
@given(truths=st.lists(WILD, max_size=4), boxes=st.lists(WILD, max_size=4), rejected=st.integers(0, 2))
def test_values_stay_in_their_range_for_any_numbers(name, truths, boxes, rejected) -> None:
    config, low, high = RANGES[name]
    points = tuple(LabeledPoint(xy=box.xyxy[:2], label=box.label) for box in boxes)
    answer = answered(boxes, rejected=rejected)
    if name == "point":
        answer = replace(answer, boxes=(), points=points)
    task = next(iter(config.build().tasks))
    found = value(config, [*truths, *boxes[:1]], answer, task)
    assert math.isfinite(found)
    assert low <= found <= high


NUMBER = st.one_of(st.integers(-10, 700), st.floats(), st.sampled_from(["1", "1e400", None, True, 10**90]))
ITEM = st.one_of(
    st.lists(NUMBER, max_size=5),
    st.fixed_dictionaries(
        {"bbox_2d": st.lists(NUMBER, min_size=3, max_size=5), "label": st.text(max_size=5)}
    ),
    st.fixed_dictionaries({"point_2d": st.lists(NUMBER, max_size=3), "image": NUMBER}),
)
WRITTEN = st.one_of(
    st.text(max_size=40),
    st.lists(ITEM, max_size=4).map(lambda items: f"<answer>{json.dumps(items)}</answer>"),
    st.lists(ITEM, max_size=4).map(lambda items: f"<answer>```json\n{json.dumps(items)[:-2]}"),
)


@pytest.mark.parametrize("name", RANGES)
@steady
@given(text=WRITTEN)
def test_no_text_breaks_a_term(name, text) -> None:
    config, low, high = RANGES[name]
    term = config.build()
    truth = Truth(boxes=(LabeledBox(xyxy=(0, 0, 100, 100), label="a"),))
    sample = Sample(id="s", task=min(term.tasks), images=(), truth=truth)
    rollout = written_rollout("s", text, [FRAME], tokens=len(text))
    scored = term.score(rollout, sample, ScoreContext(answer=parse_rollout(rollout, sample)))
    assert low <= scored.value <= high
    assert all(math.isfinite(number) for number in scored.detail.values())
