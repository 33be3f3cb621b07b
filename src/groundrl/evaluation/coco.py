"""COCO detection metrics by pycocotools, the field's reference evaluator (COCO, detection evaluation).

A category is a normalised label that some image holds as truth; predictions of other categories are not
scored. Every image of every sample is an image of its own, in the order of samples, then of images. Areas
are those of the boxes, in square pixels of the original image.
"""

from __future__ import annotations

import contextlib
import io
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from groundrl.geometry.labels import normalise_label
from groundrl.rewards.detection import Scene
from groundrl.types import LabeledBox

RANK_STEP = 2.0**-20


class Scores(StrEnum):
    """The confidence of a prediction, for answers that state none.

    ones      1 for each; ties keep the order of images, then of emission
    emission  1 - r / 2^20 for the r-th item of an answer (from 0): over the whole set all first items come
              before all second ones; the step is a power of two, so no two ranks share a score
    """

    ONES = "ones"
    EMISSION = "emission"


@dataclass(frozen=True, slots=True, kw_only=True)
class CocoMetrics:
    """COCO's first six numbers, in [0, 1]; nan where there is no true box (of that size).

    ap is the mean over IoU thresholds .50 to .95 in steps of .05. Small boxes have an area of at most 32^2,
    large ones of at least 96^2 square pixels, medium ones lie between; a bound belongs to both sides.
    """

    ap: float
    ap50: float
    ap75: float
    ap_small: float
    ap_medium: float
    ap_large: float


def confidences(count: int, scores: Scores) -> list[float]:
    """The scores of an answer's `count` predictions, in order of emission."""
    step = RANK_STEP if scores is Scores.EMISSION else 0.0
    return [1.0 - step * rank for rank in range(count)]


def coco_metrics(
    scenes: Sequence[Scene], *, scores: Scores | Sequence[Sequence[float]] = Scores.ONES
) -> CocoMetrics:
    """Evaluate predictions against truths, scene by scene.

    scores  how to score, or a number for each prediction of each scene

    Raises ValueError if numbers are given and a scene does not get one for each prediction.
    """
    if isinstance(scores, Scores):
        numbers: Sequence[Sequence[float]] = [confidences(len(scene.predictions), scores) for scene in scenes]
    else:
        numbers = scores
    if [len(row) for row in numbers] != [len(scene.predictions) for scene in scenes]:
        raise ValueError("needs one score per prediction of each scene")
    labels = {normalise_label(box.label) for scene in scenes for box in scene.truths}
    if not labels:
        nan = float("nan")
        return CocoMetrics(ap=nan, ap50=nan, ap75=nan, ap_small=nan, ap_medium=nan, ap_large=nan)
    categories = {label: number for number, label in enumerate(sorted(labels), start=1)}
    images: dict[tuple[int, int], int] = {}
    for index, scene in enumerate(scenes):
        for image in sorted({box.image for box in (*scene.truths, *scene.predictions)}):
            images[index, image] = len(images) + 1
    truths: list[dict[str, Any]] = []
    predictions: list[dict[str, Any]] = []
    for index, (scene, row) in enumerate(zip(scenes, numbers, strict=True)):
        for box in scene.truths:
            truths.append(_annotation(len(truths) + 1, images[index, box.image], box, categories))
        for box, score in zip(scene.predictions, row, strict=True):
            if normalise_label(box.label) in categories:
                entry = _annotation(len(predictions) + 1, images[index, box.image], box, categories)
                predictions.append({**entry, "score": score})
    stats = _evaluate(list(images.values()), list(categories.values()), truths, predictions)
    ap, ap50, ap75, small, medium, large = (value if value >= 0 else float("nan") for value in stats)
    return CocoMetrics(ap=ap, ap50=ap50, ap75=ap75, ap_small=small, ap_medium=medium, ap_large=large)


def _annotation(number: int, image: int, box: LabeledBox, categories: dict[str, int]) -> dict[str, Any]:
    """A box as pycocotools wants it. Its evaluator reads an id of 0 as "not matched", so ids start at 1."""
    x1, y1, x2, y2 = box.xyxy
    width, height = x2 - x1, y2 - y1
    return {
        "id": number,
        "image_id": image,
        "category_id": categories[normalise_label(box.label)],
        "bbox": [x1, y1, width, height],
        "area": width * height,
        "iscrowd": 0,
    }


def _evaluate(
    images: list[int], categories: list[int], truths: list[dict[str, Any]], predictions: list[dict[str, Any]]
) -> list[float]:
    """pycocotools' first six numbers; -1 where there is no truth. Its loader of results refuses an empty
    list, so predictions are indexed like truths."""
    from pycocotools.coco import COCO  # deferred: only evaluation needs it
    from pycocotools.cocoeval import COCOeval

    with contextlib.redirect_stdout(io.StringIO()):
        sides: list[Any] = []
        for annotations in (truths, predictions):
            side: Any = COCO()
            side.dataset = {
                "images": [{"id": number} for number in images],
                "categories": [{"id": number} for number in categories],
                "annotations": annotations,
            }
            side.createIndex()
            sides.append(side)
        evaluation = COCOeval(*sides, iouType="bbox")
        evaluation.evaluate()
        evaluation.accumulate()
        evaluation.summarize()
    return [float(value) for value in evaluation.stats[:6]]
