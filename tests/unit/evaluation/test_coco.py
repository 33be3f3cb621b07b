"""The adapter to pycocotools: its traps, categories, scores and sizes, by hand."""

import math
import subprocess
import sys
from dataclasses import asdict
from itertools import pairwise

import pytest

from groundrl.evaluation.coco import CocoMetrics, Scores, coco_metrics, confidences
from groundrl.rewards.detection import Scene
from groundrl.types import LabeledBox

NEAR_ONE = pytest.approx(1.0, abs=1e-12)


def box(x, label="a", *, side=10.0, image=0) -> LabeledBox:
    return LabeledBox(xyxy=(x, 0.0, x + side, side), label=label, image=image)


def scene(predictions, truths) -> Scene:
    return Scene(predictions=tuple(predictions), truths=tuple(truths))


def test_one_true_box_that_is_found() -> None:
    """The first annotation is the one that an id of 0 would lose."""
    metrics = coco_metrics([scene([box(0)], [box(0)])])
    assert (metrics.ap, metrics.ap50, metrics.ap75, metrics.ap_small) == (NEAR_ONE,) * 4
    assert math.isnan(metrics.ap_medium)
    assert math.isnan(metrics.ap_large)


def test_no_predictions_at_all_is_zero_and_no_truth_is_undefined() -> None:
    metrics = coco_metrics([scene([], [box(0, side=50)]), scene([], [])])
    assert (metrics.ap, metrics.ap50, metrics.ap75, metrics.ap_medium) == (0, 0, 0, 0)
    assert math.isnan(metrics.ap_small)
    for nothing in ([], [scene([box(0)], [])]):
        assert all(math.isnan(value) for value in asdict(coco_metrics(nothing)).values())


def test_predictions_of_unknown_categories_only() -> None:
    assert coco_metrics([scene([box(0, "unicorn")], [box(0)])]).ap == 0


def test_labels_are_normalised_and_other_categories_are_not_scored() -> None:
    metrics = coco_metrics([scene([box(0, "unicorn"), box(0, " CAFE\u0301")], [box(0, "café")])])
    assert metrics.ap == NEAR_ONE


def test_a_category_of_another_scene_makes_a_false_positive() -> None:
    """The false one of the first image stands before the true one: precision 1/2 at every recall."""
    assert coco_metrics([scene([box(0)], []), scene([box(0)], [box(0)])]).ap == pytest.approx(0.5)


def test_the_images_of_a_sample_do_not_mix() -> None:
    swapped = scene([box(0, image=1), box(50, image=0)], [box(0, image=0), box(50, image=1)])
    assert coco_metrics([swapped]).ap == 0
    right = scene([box(50, image=1), box(0, image=0)], [box(0, image=0), box(50, image=1)])
    assert coco_metrics([right]).ap == NEAR_ONE
    # image 0 of another sample is another image
    assert coco_metrics([right, scene([box(0)], [box(50)])]).ap < 0.99


def test_scores_by_emission_rank_all_first_items_before_all_second_ones() -> None:
    """With equal scores the ranking is hit, miss, hit, of 2 true boxes: 51 recall levels at precision 1, 50
    at 2/3; with the images swapped hit, hit, miss. By emission it is hit, hit, miss either way."""
    scenes = [scene([box(0), box(500)], [box(0)]), scene([box(0)], [box(0)])]
    reverse = scenes[::-1]
    assert coco_metrics(scenes).ap == pytest.approx((51 + 50 * 2 / 3) / 101)
    assert coco_metrics(reverse).ap == NEAR_ONE
    for order in (scenes, reverse):
        assert coco_metrics(order, scores=Scores.EMISSION).ap == NEAR_ONE


def test_emission_keeps_the_order_of_very_long_answers() -> None:
    scores = confidences(200_000, Scores.EMISSION)
    assert scores[0] == 1
    assert all(first > second > 0 for first, second in pairwise(scores))
    assert confidences(3, Scores.ONES) == [1, 1, 1]
    # a hundred junk boxes first: the true one is cut off with either scores
    late = [scene([*(box(1000 + 20 * i) for i in range(100)), box(0)], [box(0)])]
    assert coco_metrics(late, scores=Scores.EMISSION).ap == 0
    assert coco_metrics(late).ap == 0


def test_given_scores_rank_and_must_fit() -> None:
    own = [scene([box(500), box(0)], [box(0)])]
    assert coco_metrics(own, scores=[[0.1, 0.9]]).ap == NEAR_ONE
    assert coco_metrics(own, scores=[[0.9, 0.1]]).ap == pytest.approx(0.5)
    for wrong in ([[0.1]], [], [[0.1, 0.9], []]):
        with pytest.raises(ValueError, match="one score per prediction"):
            coco_metrics(own, scores=wrong)


def test_sizes_and_their_bounds() -> None:
    """A box of 32 x 32 is small and medium, one of 96 x 96 medium and large. The prediction of the large box
    is false for it (IoU 0.25), and outside the other ranges it does not count: medium has hits only."""
    truths = [box(0, side=32), box(200, side=96), box(400, side=200)]
    predictions = [LabeledBox(xyxy=(400, 0, 500, 100), label="a"), box(0, side=32), box(200, side=96)]
    metrics = coco_metrics([scene(predictions, truths)])
    assert metrics.ap_small == NEAR_ONE
    assert metrics.ap_medium == NEAR_ONE
    # large: miss, then the 96 x 96 hit, of two true boxes: precision 1/2 up to recall 1/2 (51 levels)
    assert metrics.ap_large == pytest.approx(0.5 * 51 / 101)
    # all: miss, hit, hit, of three: precision at the second hit 2/3, up to recall 2/3 (67 levels)
    assert metrics.ap == pytest.approx(2 / 3 * 67 / 101)


def test_it_is_silent_and_leaves_its_input_alone(capsys) -> None:
    own = [scene([box(0)], [box(0)])]
    first = coco_metrics(own)
    assert capsys.readouterr().out == ""
    second = coco_metrics(own)
    assert (second.ap, second.ap50) == (first.ap, first.ap50)
    assert isinstance(second, CocoMetrics)


def test_the_module_imports_neither_pycocotools_nor_matplotlib() -> None:
    code = (
        "import sys, groundrl.evaluation.ovdeval; "
        "print([name for name in ('pycocotools', 'matplotlib') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
