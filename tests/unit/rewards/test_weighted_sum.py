"""weighted_sum: matching, the three parts, what is refused, and what a policy could try."""

import json
import random

import pytest
from tests.golden.scenes import (
    CAT,
    DOG,
    FAR,
    NEGATIVE,
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
from groundrl.rewards.base import Compat
from groundrl.rewards.weighted_sum import WeightedSumConfig
from groundrl.types import CoordinateSpace, ImageFrame, LabeledBox, Sample, Task, Truth

HALF = ([0, 0, 50, 100], "cat")  # IoU .5 with the cat


def test_the_parts_explain_the_value() -> None:
    scored = score(WeightedSumConfig(), OVD, fenced(HALF, DOG, (FAR, "cat"), (FAR, "dog")))
    # IoUs .5 and 1 of two; two of four are false alarms
    assert scored.detail == {"position": 0.75, "label": 1, "completeness": 0.75, "matched": 2}
    assert scored.value == pytest.approx(0.7 * 0.75 + 0.3 * 0.75)


def test_weights_are_divided_by_their_sum() -> None:
    text = fenced(HALF, (DOG[0], "cat"))  # position .25, label .5, completeness 1
    for weights, expected in (((1, 0, 0), 0.25), ((0, 2, 0), 0.5), ((0, 0, 3), 1), ((1, 1, 2), 2.75 / 4)):
        config = WeightedSumConfig(
            position_weight=weights[0], label_weight=weights[1], completeness_weight=weights[2]
        )
        assert value_of(config, OVD, text) == pytest.approx(expected)


@pytest.mark.parametrize("compat", Compat)
def test_the_threshold_is_inclusive(compat) -> None:
    sample = sample_of(Task.ovd, CAT)
    # at .5 the pair counts: .7 * .5 + .3; above it nothing does
    assert value_of(WeightedSumConfig(compat=compat), sample, fenced(HALF)) == pytest.approx(0.65)
    assert value_of(WeightedSumConfig(iou_threshold=0.51, compat=compat), sample, fenced(HALF)) == 0


@pytest.mark.parametrize("compat", Compat)
def test_a_wrong_label_takes_both_boxes(compat) -> None:
    """The better placed box has the wrong label: the right one is a false alarm, the truth is spent."""
    sample = sample_of(Task.ovd, CAT)
    near = ([0, 0, 100, 90], "cat")
    # matched: the dog at IoU 1. position 0; no miss; one of two a false alarm: .3 * .75
    assert value_of(WeightedSumConfig(compat=compat), sample, fenced((CAT[0], "dog"), near)) == pytest.approx(
        0.225
    )
    # the same box twice: the first one written is taken
    both = [CAT, (CAT[0], "dog")]
    assert value_of(WeightedSumConfig(compat=compat), sample, fenced(*both)) == pytest.approx(0.7 + 0.225)
    assert value_of(WeightedSumConfig(compat=compat), sample, fenced(*both[::-1])) == pytest.approx(0.225)


@pytest.mark.parametrize("compat", Compat)
def test_matching_is_one_to_one(compat) -> None:
    two = [([0, 0, 100, 100], "cat"), ([0, 0, 100, 98], "cat")]
    # one box near both: it takes the first (IoU 1) and misses the second: .7 * .5 + .3 * .75
    assert value_of(
        WeightedSumConfig(compat=compat), sample_of(Task.ovd, *two), fenced(CAT)
    ) == pytest.approx(0.575)


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("None", 1),
        ("[]", 1),
        ("```json\n[]\n```", 1),
        ("no objects", 0),
        ('[{"bbox', 0),
        ("", 0),
        (json.dumps(listed(CAT)), 0),
        ('[{"bbox_2d": [1, 1, 1, 1], "label": "cat"}]', 0),
    ],
)
def test_negative_samples_pay_only_a_well_formed_none(body, expected) -> None:
    scored = score(WeightedSumConfig(), NEGATIVE, answer(body))
    assert scored.value == expected
    assert set(scored.detail) == {"position", "label", "completeness", "matched"}
    assert value_of(WeightedSumConfig(), OVD, answer(body)) == (
        0.575 if expected == 0 and "100" in body else 0
    )


def test_refused_items_alone_are_worth_nothing() -> None:
    items = [{"bbox_2d": [9, 9, 0, 0], "label": "cat"}, {"bbox_2d": CAT[0]}]
    assert value_of(WeightedSumConfig(), OVD, answer(fence(items))) == 0


def test_padding_never_pays() -> None:
    exact = [CAT, DOG]
    extras = [CAT, ([1, 0, 101, 100], "cat"), (FAR, "unicorn"), ([9, 9, 0, 0], "dog")]
    for count in (1, 2, 3, 20):
        chosen = [extras[i % len(extras)] for i in range(count)]
        # position 1, no miss: 1 - .3 * (count / (count + 2)) / 2
        expected = 1 - 0.15 * count / (count + 2)
        assert value_of(WeightedSumConfig(), OVD, fenced(*exact, *chosen)) == pytest.approx(expected)


def test_images_do_not_mix() -> None:
    truth = Truth(boxes=(LabeledBox(xyxy=(0, 0, 100, 100), label="cat", image=1),))
    sample = Sample(id="s", task=Task.ovd, images=(), truth=truth)
    frames = (ImageFrame(original=(640, 480), processed=(640, 480)),) * 2
    other = answer(json.dumps([{"bbox_2d": [0, 0, 100, 100], "label": "cat", "image": 0}]))
    same = answer(json.dumps([{"bbox_2d": [0, 0, 100, 100], "label": "cat", "image": 1}]))
    assert value_of(WeightedSumConfig(), sample, rollout_of(other, frames=frames)) == 0
    assert value_of(WeightedSumConfig(), sample, rollout_of(same, frames=frames)) == 1


@pytest.mark.parametrize("compat", Compat)
def test_boxes_are_converted_and_values_stay_in_range(compat) -> None:
    frame = ImageFrame(original=(640, 480), processed=(320, 120))
    small = fenced(([0, 0, 50, 25], "cat"), ([100, 50, 150, 75], "dog"))
    half = rollout_of(small, frames=(frame,), space=CoordinateSpace.PIXEL_RESIZED)
    assert value_of(WeightedSumConfig(compat=compat), OVD, half) == 1
    rng = random.Random(0)
    for _ in range(50):
        boxes = [
            ([rng.randint(-50, 400) for _ in range(4)], rng.choice(["cat", "dog", "x"])) for _ in range(6)
        ]
        assert 0 <= value_of(WeightedSumConfig(compat=compat), OVD, fenced(*boxes)) <= 1


@pytest.mark.parametrize(
    ("settings", "key"),
    [
        ({"position_weight": -1.0}, "position_weight"),
        ({"label_weight": float("nan")}, "label_weight"),
        ({"completeness_weight": float("inf")}, "completeness_weight"),
        ({"position_weight": 0.0, "completeness_weight": 0.0}, "position_weight"),
        ({"iou_threshold": 0.0}, "iou_threshold"),
        ({"iou_threshold": 50.0}, "iou_threshold"),
        ({"iou_threshold": float("nan")}, "iou_threshold"),
        ({"weight": float("nan")}, "weight"),
    ],
)
def test_bad_settings_name_their_key(settings, key) -> None:
    with pytest.raises(ConfigError) as caught:
        WeightedSumConfig(**settings)
    assert caught.value.key == key
