"""Data set AP against pycocotools on random scenes, and greedy precision and recall by hand."""

import contextlib
import io

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pycocotools.coco import COCO
from pycocotools.cocoeval import COCOeval

from groundrl.evaluation.detection import CocoSet, DetectionSet, greedy_matches
from groundrl.rewards.detection import COCO_THRESHOLDS, Scene
from groundrl.rewards.scene_ap import scene_average_precision
from groundrl.types import XYXY, LabeledBox

LABELS = "abcd"


def coco_ap(scenes) -> tuple[float, float] | None:
    """(AP, AP50) of pycocotools, area "all", or None without any true box."""
    annotations, predictions = [], []
    for image, scene in enumerate(scenes):
        for box in scene.truths:
            x1, y1, x2, y2 = box.xyxy
            annotations.append(
                {
                    "id": len(annotations) + 1,
                    "image_id": image,
                    "category_id": LABELS.index(box.label),
                    "bbox": [x1, y1, x2 - x1, y2 - y1],
                    "area": (x2 - x1) * (y2 - y1),
                    "iscrowd": 0,
                }
            )
        for box in scene.predictions:
            x1, y1, x2, y2 = box.xyxy
            predictions.append(
                {
                    "image_id": image,
                    "category_id": LABELS.index(box.label),
                    "bbox": [x1, y1, x2 - x1, y2 - y1],
                    "score": 1.0,
                }
            )
    if not annotations:
        return None
    if not predictions:
        return 0.0, 0.0
    with contextlib.redirect_stdout(io.StringIO()):
        truth = COCO()
        truth.dataset = {
            "images": [{"id": image} for image in range(len(scenes))],
            "categories": [{"id": index, "name": label} for index, label in enumerate(LABELS)],
            "annotations": annotations,
        }
        truth.createIndex()
        evaluation = COCOeval(truth, truth.loadRes(predictions), "bbox")
        evaluation.evaluate()
        evaluation.accumulate()
        evaluation.summarize()
    return float(evaluation.stats[0]), float(evaluation.stats[1])


def random_scene(rng, *, labels=LABELS, most=6) -> Scene:
    def boxes(count, whole) -> list[XYXY]:
        corner, size = rng.integers(0, 30, (count, 2)), rng.integers(4, 24, (count, 2))
        if not whole:
            corner, size = corner + rng.random((count, 2)), size + rng.random((count, 2))
        return [(*map(float, low), *map(float, low + side)) for low, side in zip(corner, size, strict=True)]

    whole = bool(rng.integers(2))
    truths = [
        LabeledBox(xyxy=xyxy, label=str(rng.choice(list(labels))))
        for xyxy in boxes(rng.integers(0, most), whole)
    ]
    predictions = [
        LabeledBox(xyxy=xyxy, label=str(rng.choice(list(labels))))
        for xyxy in boxes(rng.integers(0, most), whole)
    ]
    for true in truths:  # predictions near the truth, copies included
        for _ in range(rng.integers(0, 3)):
            shift = rng.integers(0, 4, 4) if whole else rng.random(4) * 3
            x1, y1, x2, y2 = true.xyxy
            near = (x1 + shift[0], y1 + shift[1], x2 + shift[2], y2 + shift[3])
            label = true.label if rng.random() < 0.8 else str(rng.choice(list(labels)))
            predictions.append(LabeledBox(xyxy=tuple(map(float, near)), label=label))
    order = rng.permutation(len(predictions))
    return Scene(predictions=tuple(predictions[i] for i in order), truths=tuple(truths))


def check_against_coco(scenes, actual) -> tuple[float, float] | None:
    expected = coco_ap(scenes)
    if expected is None:
        assert np.isnan(actual).all()
    else:
        assert actual.mean() == pytest.approx(expected[0], abs=1e-12)
        assert actual[0] == pytest.approx(expected[1], abs=1e-12)
    return expected


def test_data_sets_equal_pycocotools() -> None:
    rng = np.random.default_rng(0)
    values = set()
    for _ in range(150):
        scenes = [random_scene(rng) for _ in range(rng.integers(1, 8))]
        values.add(check_against_coco(scenes, DetectionSet(scenes).average_precision()))
    assert len(values) > 140  # the scenes do test something


def test_one_image_equals_pycocotools() -> None:
    rng = np.random.default_rng(1)
    for _ in range(200):
        scene = random_scene(rng, most=4)
        actual = scene_average_precision(scene.predictions, scene.truths, COCO_THRESHOLDS)
        expected = coco_ap([scene])
        if expected is None:
            assert np.isnan(actual)
        else:
            assert actual == pytest.approx(expected[0], abs=1e-12)


def test_resamples_equal_pycocotools_on_the_repeated_scenes() -> None:
    rng = np.random.default_rng(2)
    for _ in range(40):
        scenes = [random_scene(rng) for _ in range(6)]
        detections = DetectionSet(scenes)
        indices = rng.integers(0, 6, size=6)
        actual = detections.average_precision(indices)
        check_against_coco([scenes[index] for index in indices], actual)


def test_bootstrap_draws_scatter_around_the_value_over_all_orders() -> None:
    rng = np.random.default_rng(4)
    detections = DetectionSet([random_scene(rng) for _ in range(150)])

    def ap(indices) -> float:
        return detections.average_precision(indices).mean()

    draws = np.array([ap(rng.integers(0, 150, size=150)) for _ in range(200)])
    orders = np.mean([ap(rng.permutation(150)) for _ in range(200)])
    assert abs(draws.mean() - orders) < 0.3 * draws.std()  # sorted draws are off by more than one deviation


def test_more_than_a_hundred_predictions_equal_pycocotools() -> None:
    rng = np.random.default_rng(3)
    scenes = [random_scene(rng, labels="ab", most=260) for _ in range(3)]
    assert max(len(scene.predictions) for scene in scenes) > 300
    check_against_coco(scenes, DetectionSet(scenes).average_precision())


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32), st.integers(1, 5), st.sampled_from(["a", "abcd"]))
def test_any_seed_equals_pycocotools(seed, count, labels) -> None:
    rng = np.random.default_rng(seed)
    scenes = [random_scene(rng, labels=labels) for _ in range(count)]
    check_against_coco(scenes, DetectionSet(scenes).average_precision())


def box(x, label="a", image=0) -> LabeledBox:
    return LabeledBox(xyxy=(x, 0.0, x + 10.0, 10.0), label=label, image=image)


def test_a_category_of_another_scene_makes_a_false_positive_and_an_unknown_one_does_not() -> None:
    first = Scene(predictions=(box(0, "b"), box(0, "unicorn")), truths=())
    second = Scene(predictions=(box(0, "B "),), truths=(box(0, "b"),))
    assert DetectionSet([first, second]).average_precision().tolist() == [0.5] * 10
    assert DetectionSet([second, first]).average_precision().tolist() == [1.0] * 10


def test_without_truth_or_scenes() -> None:
    assert np.isnan(DetectionSet([]).average_precision()).all()
    assert np.isnan(DetectionSet([]).precision_recall()).all()
    empty = Scene(predictions=(), truths=())
    assert np.isnan(DetectionSet([empty]).precision_recall()).all()
    assert np.isnan(DetectionSet([Scene(predictions=(box(0),), truths=())]).precision_recall()).all()
    assert DetectionSet([Scene(predictions=(), truths=(box(0),))]).precision_recall() == (0.0, 0.0)
    assert DetectionSet([Scene(predictions=(), truths=(box(0),))]).average_precision().tolist() == [0.0] * 10


def test_greedy_precision_and_recall_by_hand() -> None:
    scenes = [
        Scene(predictions=(box(0), box(0), box(50, "b")), truths=(box(0), box(50, "a")), rejected=1),
        Scene(predictions=(box(0, "A "),), truths=(box(3),)),  # IoU 7 / 13
    ]
    detections = DetectionSet(scenes)
    assert [greedy_matches(scene) for scene in scenes] == [1, 1]
    assert detections.precision_recall() == (2 / 5, 2 / 3)
    assert detections.precision_recall(np.array([1, 1])) == (1.0, 1.0)
    assert detections.precision_recall(np.array([0, 0, 1])) == (3 / 9, 3 / 5)


def test_greedy_does_not_depend_on_order_nor_cross_images() -> None:
    truths = (box(0), box(4))
    for predictions in ((box(2), box(0)), (box(0), box(2))):
        assert greedy_matches(Scene(predictions=predictions, truths=truths)) == 2
    assert greedy_matches(Scene(predictions=(box(0, image=1),), truths=(box(0),))) == 0


def wide(x, side, label="a") -> LabeledBox:
    return LabeledBox(xyxy=(x, 0.0, x + side, side), label=label)


def test_sizes_by_hand() -> None:
    """Two scenes. In the small range the large true box is ignored, and with it its prediction; the junk of
    40 x 40 is neither small nor matched, so it is ignored there and a false positive in medium.

    small   hit (20), miss (21 x 21 junk) -> 1; medium: no true box; large: hit -> 1
    all     hit, junk 40, junk 21, hit of 2 true boxes: 51 levels at 1, 50 at 2/4
    """
    scenes = [
        Scene(predictions=(wide(0, 20), wide(500, 40), wide(300, 21)), truths=(wide(0, 20),)),
        Scene(predictions=(wide(0, 100),), truths=(wide(0, 100),)),
    ]
    metrics = CocoSet(scenes).metrics()
    assert metrics["ap"] == metrics["ap50"] == pytest.approx((51 + 50 / 2) / 101)
    assert (metrics["ap_small"], metrics["ap_large"]) == (1, 1)
    assert np.isnan(metrics["ap_medium"])
    assert (metrics["gp50"], metrics["gr50"]) == (2 / 4, 1)
    # the second scene twice has no small box; its second copy is a hit as well
    assert np.isnan(CocoSet(scenes).metrics(np.array([1, 1]))["ap_small"])
    assert CocoSet(scenes).metrics(np.array([1, 1]))["ap_large"] == 1


def test_a_true_box_in_the_range_is_preferred_to_a_better_one_outside() -> None:
    """The prediction (33 x 33) equals the medium true box, but in the small range it takes the small one (30
    x 30, IoU 900 / 1089 = .826) at the thresholds up to .8; above it is matched to an ignored box."""
    scene = Scene(predictions=(wide(0, 33),), truths=(wide(0, 33), wide(0, 30)))
    table = DetectionSet([scene], sizes=((0, 32**2), (32**2, 96**2))).average_precision()
    assert table.shape == (2, 10)
    assert table[0].tolist() == [1] * 7 + [0] * 3
    assert table[1].tolist() == [1] * 10


def test_an_ignored_prediction_takes_no_rank_but_a_false_one_in_the_range_does() -> None:
    """Large range: junk of 10 x 10 first is ignored, so the hit has rank 1; junk of 100 x 100 makes it 2."""
    sizes = ((96.0**2, float("inf")),)
    truths = (wide(0, 120),)
    for junk, expected in ((10, 1.0), (100, 0.5)):
        scene = Scene(predictions=(wide(500, junk), wide(0, 120)), truths=truths)
        assert DetectionSet([scene], sizes=sizes).average_precision().tolist() == [[expected] * 10]
