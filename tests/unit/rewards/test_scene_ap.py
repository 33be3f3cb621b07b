"""Single-image AP: ranks, ties, limits."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from groundrl.rewards.detection import (
    COCO_THRESHOLDS,
    Scene,
    accumulate,
    count_duplicates,
)
from groundrl.rewards.scene_ap import scene_average_precision
from groundrl.types import LabeledBox


def box(x, label="a", *, width=10.0, image=0) -> LabeledBox:
    return LabeledBox(xyxy=(x, 0.0, x + width, 10.0), label=label, image=image)


def ap(predictions, truths, thresholds=(0.5,)) -> float:
    scene = Scene(predictions=tuple(predictions), truths=tuple(truths))
    return scene_average_precision(scene.predictions, scene.truths, thresholds)


def test_rank_of_a_false_positive() -> None:
    truths = [box(0), box(100)]
    assert ap([box(0), box(100), box(500)], truths) == 1
    assert ap([box(0), box(500), box(100)], truths) == pytest.approx((51 * 1 + 50 * 2 / 3) / 101)
    assert ap([box(500), box(0), box(100)], truths) == pytest.approx(2 / 3)


def test_half_the_recall_is_fifty_one_levels() -> None:
    assert ap([box(0)], [box(0), box(100)]) == 51 / 101


def test_threshold_is_inclusive() -> None:
    assert ap([box(0, width=5)], [box(0)]) == 1
    assert ap([box(0, width=4.999)], [box(0)]) == 0
    assert ap([box(0)], [box(0)], (1.0,)) == 1


def test_a_prediction_takes_the_best_free_truth() -> None:
    truths = [box(0), box(2)]
    assert ap([box(0), box(0)], truths) == 1  # the second takes the neighbour, IoU 8 / 12
    assert ap([box(1), box(0)], truths, (0.7,)) == 1  # a tie takes the later truth and leaves the first
    assert ap([box(2), box(1)], truths, (0.7,)) == 1


def test_images_of_one_sample_do_not_mix() -> None:
    truths = [box(0, image=0), box(50, image=1)]
    assert ap([box(0, image=0), box(50, image=1)], truths) == 1
    assert ap([box(0, image=1), box(50, image=0)], truths) == 0


def test_only_the_first_hundred_of_a_category_count() -> None:
    junk = [box(1000 + 20 * i) for i in range(100)]
    assert ap([*junk, box(0)], [box(0)]) == 0
    assert ap([*junk[:99], box(0)], [box(0)]) == pytest.approx(1 / 100)
    assert ap([*junk, box(0, "b")], [box(0, "b")]) == 1


def test_no_truth_is_undefined() -> None:
    assert math.isnan(ap([box(0)], []))
    values = accumulate(np.zeros((2, 0), dtype=bool), np.zeros(0, dtype=np.int64), np.array([0, 3]))
    assert np.isnan(values[:, 0]).all()
    assert values[:, 1].tolist() == [0, 0]


@given(st.lists(st.tuples(st.integers(0, 60), st.sampled_from("abc")), min_size=1, max_size=8))
def test_truth_as_prediction_is_exactly_one(items) -> None:
    boxes = [box(20 * x, label) for x, label in items]
    assert ap(boxes, boxes, COCO_THRESHOLDS) == 1.0


@given(st.lists(st.integers(0, 300), max_size=12), st.lists(st.integers(0, 300), min_size=1, max_size=6))
def test_appending_a_prediction_never_lowers_and_prepending_a_false_one_never_raises(predicted, true) -> None:
    predictions, truths = [box(x) for x in predicted], [box(x) for x in true]
    value = ap(predictions, truths, COCO_THRESHOLDS)
    assert 0 <= value <= 1
    assert ap([*predictions, box(5000)], truths, COCO_THRESHOLDS) == value
    assert ap([box(5000), *predictions], truths, COCO_THRESHOLDS) <= value


def test_duplicates_are_seen_through_jitter_and_need_the_label() -> None:
    five = [box(i * 0.1, "Dog ") for i in range(5)]
    assert count_duplicates(five) == 4
    assert count_duplicates([box(0, "dog"), box(0, "DOG"), box(0, "cat"), box(0, "dog", image=1)]) == 1
    assert count_duplicates([box(0, width=10), box(0, width=9)]) == 0  # IoU 0.9 is not above 0.9
    assert count_duplicates([]) == 0


def test_duplicates_are_counted_across_a_long_answer() -> None:
    apart = [box(20 * place) for place in range(300)]
    assert count_duplicates(apart) == 0
    assert count_duplicates([*apart, *apart[:7]]) == 7
    assert count_duplicates([apart[0]] * 700) == 699
