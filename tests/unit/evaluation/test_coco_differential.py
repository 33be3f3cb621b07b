"""Average precision of 2,000 random scenes, one by one and in sets, against pycocotools' own evaluator.

The evaluator is fed by this file alone: categories come from a table, not from the label normalisation.
Images are matched once by `COCOeval.evaluate`; a scene, or a set of scenes, is then what
`COCOeval.accumulate` makes of its images.
"""

import contextlib
import copy
import io
import math
from itertools import count

import numpy as np
import pytest
from pycocotools.coco import COCO
from pycocotools.cocoeval import COCOeval

from groundrl.evaluation.coco import coco_metrics
from groundrl.evaluation.detection import CocoSet
from groundrl.geometry.boxes import as_array, pairwise_iou
from groundrl.rewards.detection import COCO_THRESHOLDS, Scene
from groundrl.rewards.scene_ap import scene_average_precision
from groundrl.types import XYXY, LabeledBox

NUM_SCENES = 2000
SPELLINGS = {
    "cat": 1,
    "Cat ": 1,
    " CAT": 1,
    "café": 2,
    "CAFE\u0301": 2,  # an e and a combining accent
    "hot dog": 3,
    "Hot  Dog": 3,
    "straße": 4,
    "STRASSE": 4,
}
NAMES = list(SPELLINGS)
NUM_CATEGORIES = 4
SIDES = np.array([8, 20, 32, 40, 96, 120])  # 32^2 and 96^2 lie on the bounds between sizes


def corner_box(x, y, width, height) -> XYXY:
    return (float(x), float(y), float(x + width), float(y + height))


def random_scene(rng) -> Scene:
    """1 or 2 images, 0 to 6 true boxes, 0 to 150 predictions: near hits, overlaps that lie exactly on a
    threshold, exact copies on both sides, equal overlaps, junk. Coordinates are multiples of 1/2, where both
    sides compute without rounding, or any floats."""
    step = (0.5, None)[int(rng.random() < 0.3)]
    num_images, known = rng.integers(1, 3), rng.choice(NAMES, size=rng.integers(1, 6))

    def place() -> tuple[float, float]:
        x, y = rng.integers(0, 200, 2)
        return (x, y) if step else (x + rng.random(), y + rng.random())

    truths = [
        LabeledBox(
            xyxy=corner_box(*place(), *rng.choice(SIDES, 2)),
            label=str(rng.choice(known)),
            image=int(rng.integers(num_images)),
        )
        for _ in range(rng.integers(0, 7))
    ]
    truths += truths[: int(rng.random() < 0.2)]
    heavy = rng.random() < 0.1
    total = int(rng.integers(100, 151) if heavy else rng.integers(0, 14))
    junk_label = str(rng.choice(known))
    predictions: list[LabeledBox] = []
    for _ in range(total):
        kind, (x, y) = rng.random(), place()
        if heavy and kind < 0.8:
            xyxy = corner_box(x, y, *rng.choice(SIDES, 2))
            predictions.append(LabeledBox(xyxy=xyxy, label=junk_label))
        elif predictions and kind < 0.15:
            predictions.append(predictions[rng.integers(len(predictions))])
        elif truths and kind < 0.9:
            true = truths[rng.integers(len(truths))]
            x1, y1, x2, y2 = true.xyxy
            if step and rng.random() < 0.5:  # k/20 of most widths is exact: IoU .5, .55, ...
                x2 = x1 + round((x2 - x1) * int(rng.integers(9, 21)) / 10) / 2
            else:
                shift = rng.integers(-6, 7, 4) * step if step else rng.normal(0, 3, 4)
                x1, y1, x2, y2 = (float(a + b) for a, b in zip(true.xyxy, shift, strict=True))
            if not (x1 < x2 and y1 < y2):
                continue
            same = [name for name in NAMES if SPELLINGS[name] == SPELLINGS[true.label]]
            label = str(rng.choice(same if rng.random() < 0.8 else NAMES))
            image = true.image if rng.random() < 0.95 else int(rng.integers(num_images))
            predictions.append(LabeledBox(xyxy=(x1, y1, x2, y2), label=label, image=image))
        else:
            label = str(rng.choice(NAMES))
            image = int(rng.integers(num_images))
            predictions.append(
                LabeledBox(xyxy=corner_box(x, y, *rng.choice(SIDES, 2)), label=label, image=image)
            )
    return Scene(predictions=tuple(predictions), truths=tuple(truths))


class Reference:
    """pycocotools on the scenes: `evaluate` once, `accumulate` on the images of some of them."""

    def __init__(self, scenes) -> None:
        sides, numbers = ([], []), (count(1), count(1))
        for index, scene in enumerate(scenes):
            for side, boxes in enumerate((scene.truths, scene.predictions)):
                for box in boxes:
                    x1, y1, x2, y2 = box.xyxy
                    entry = {
                        "id": next(numbers[side]),
                        "image_id": 2 * index + box.image,
                        "category_id": SPELLINGS[box.label],
                        "bbox": [x1, y1, x2 - x1, y2 - y1],
                        "area": (x2 - x1) * (y2 - y1),
                        "iscrowd": 0,
                        "score": 1.0,
                    }
                    sides[side].append(entry)
        self.num_images = 2 * len(scenes)
        with contextlib.redirect_stdout(io.StringIO()):
            self.evaluator = COCOeval(*(self._index(annotations) for annotations in sides), "bbox")
            self.evaluator.params.maxDets = [1, 10, 100]
            self.evaluator.evaluate()

    def _index(self, annotations) -> COCO:
        side = COCO()
        side.dataset = {
            "images": [{"id": number} for number in range(self.num_images)],
            "categories": [{"id": number} for number in range(1, NUM_CATEGORIES + 1)],
            "annotations": annotations,
        }
        side.createIndex()
        return side

    def precision(self, indices, num_sizes=4) -> np.ndarray:
        """[T, R, K, A] over the images of the scenes `indices`, ascending; -1 where nothing is true."""
        images = [2 * index + image for index in indices for image in range(2)]
        part = COCOeval(iouType="bbox")
        part.params = copy.copy(self.evaluator.params)
        part.params.imgIds, part.params.maxDets = images, [100]
        part.params.areaRng = self.evaluator.params.areaRng[:num_sizes]
        part._paramsEval = part.params
        part.evalImgs = [
            self.evaluator.evalImgs[(kind * 4 + size) * self.num_images + image]
            for kind in range(NUM_CATEGORIES)
            for size in range(num_sizes)
            for image in images
        ]
        with contextlib.redirect_stdout(io.StringIO()):
            part.accumulate()
        return part.eval["precision"][..., 0]


def mean(table) -> float:
    valid = table[table > -1]
    return float(valid.mean()) if valid.size else math.nan


@pytest.fixture(scope="module")
def scenes() -> list[Scene]:
    rng = np.random.default_rng(20)
    return [random_scene(rng) for _ in range(NUM_SCENES)]


@pytest.fixture(scope="module")
def reference(scenes) -> Reference:
    return Reference(scenes)


def test_each_scene_equals_pycocotools(scenes, reference) -> None:
    values = []
    for index, scene in enumerate(scenes):
        expected = mean(reference.precision([index], num_sizes=1))
        actual = scene_average_precision(scene.predictions, scene.truths, COCO_THRESHOLDS)
        assert actual == pytest.approx(expected, abs=1e-9, nan_ok=True), f"scene {index}"
        values.append(expected)
    inner = [value for value in values if 0 < value < 1]
    assert len(set(inner)) > 500  # the scenes are no trivial ones
    assert sum(math.isnan(value) for value in values) > 100  # without truth


def test_the_scenes_hold_what_they_are_for(scenes) -> None:
    assert max(len(scene.predictions) for scene in scenes) > 140
    cut = 0
    for scene in scenes:
        keys = [(SPELLINGS[box.label], box.image) for box in scene.predictions]
        cut += any(keys.count(key) > 100 for key in set(keys))
    assert cut > 40
    assert sum(len(set(scene.predictions)) < len(scene.predictions) for scene in scenes) > 500
    overlaps = [
        pairwise_iou(*(as_array(box.xyxy for box in side) for side in (scene.predictions, scene.truths)))
        for scene in scenes
    ]
    for threshold in COCO_THRESHOLDS:
        assert sum(int((overlap == threshold).sum()) for overlap in overlaps) > 50
    assert sum(len({box.image for box in scene.truths}) == 2 for scene in scenes) > 500


def test_sets_and_their_sizes_equal_pycocotools(scenes, reference) -> None:
    rng = np.random.default_rng(21)
    seen = set()
    for number in range(60):
        indices = np.sort(rng.choice(NUM_SCENES, size=int(rng.integers(1, 60)), replace=False))
        table = reference.precision(indices)
        expected = {
            "ap": mean(table[..., 0]),
            "ap50": mean(table[0, ..., 0]),
            "ap75": mean(table[5, ..., 0]),
            "ap_small": mean(table[..., 1]),
            "ap_medium": mean(table[..., 2]),
            "ap_large": mean(table[..., 3]),
        }
        chosen = [scenes[index] for index in indices]
        actual = CocoSet(chosen).metrics()
        by_tool = coco_metrics(chosen)
        for name, value in expected.items():
            assert actual[name] == pytest.approx(value, abs=1e-9, nan_ok=True), (number, name)
            assert getattr(by_tool, name) == pytest.approx(value, abs=1e-12, nan_ok=True), (number, name)
            seen.add(value)
    assert len(seen) > 300


def test_a_resample_with_repeats_equals_pycocotools_on_the_repeated_scenes(scenes) -> None:
    rng = np.random.default_rng(22)
    own = [scenes[index] for index in rng.choice(NUM_SCENES, size=12, replace=False)]
    matched = CocoSet(own)
    for _ in range(15):
        indices = rng.integers(0, len(own), size=len(own))
        expected = coco_metrics([own[index] for index in indices])
        actual = matched.metrics(indices)
        for name in ("ap", "ap50", "ap75", "ap_small", "ap_medium", "ap_large"):
            assert actual[name] == pytest.approx(getattr(expected, name), abs=1e-9, nan_ok=True)
