"""COCO average precision when every prediction has score 1, for one image or a set of them.

The numbers equal pycocotools' (area "all", at most 100 predictions per image and category) on the same
boxes. With equal scores the ranking is the order of emission inside an image, then the order of images:
a false positive written first costs more than one written last. Matching is done once per image and
category; what it yields can be accumulated over any set of images, which bootstrap resampling needs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from groundrl.geometry.boxes import Float64, as_array, pairwise_iou
from groundrl.geometry.labels import normalise_label
from groundrl.parsing.answer import Answer
from groundrl.types import LabeledBox, Sample

COCO_THRESHOLDS = (0.5, 0.55, 0.6, 0.65, 0.7, 0.75, 0.8, 0.85, 0.9, 0.95)
MAX_PREDICTIONS = 100
RECALL_LEVELS = np.linspace(0.0, 1.0, 101)
_LARGEST_MINIMUM = 1 - 1e-10


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """Predictions of one sample, in order of emission, and its true boxes.

    `rejected` counts predictions that were refused by the parser: they match nothing, but they were claimed.
    """

    predictions: tuple[LabeledBox, ...]
    truths: tuple[LabeledBox, ...]
    rejected: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class CategoryMatch:
    """One category of one scene: `hits` bool [T, D] (prediction d is a true positive at threshold t)."""

    hits: NDArray[np.bool_]
    num_truths: int


def scene_of(answer: Answer, sample: Sample) -> Scene:
    """The scene of a parsed detection answer."""
    return Scene(predictions=answer.boxes, truths=sample.truth.boxes, rejected=len(answer.rejected))


def _hits(iou: Float64, thresholds: Float64) -> NDArray[np.bool_]:
    """Greedy assignment in order of emission: iou [D, G], thresholds [T] -> [T, D].

    Each prediction takes the free true box of largest IoU, the last of equal ones.
    """
    num_predictions, num_truths = iou.shape
    hits = np.zeros((len(thresholds), num_predictions), dtype=np.bool_)
    free = np.ones((len(thresholds), num_truths), dtype=np.bool_)
    rows = np.arange(len(thresholds))
    for index in np.flatnonzero((iou >= thresholds.min()).any(axis=1)):
        candidates = np.where(free & (iou[index] >= thresholds[:, None]), iou[index], -1.0)
        best = num_truths - 1 - candidates[:, ::-1].argmax(axis=1)
        hit = candidates[rows, best] >= 0
        free[rows[hit], best[hit]] = False
        hits[:, index] = hit
    return hits


def match_scene(scene: Scene, thresholds: Sequence[float]) -> dict[str, CategoryMatch]:
    """Match a scene per category (normalised label) and image; categories in order of first appearance."""
    minima = np.minimum(np.asarray(thresholds, dtype=np.float64), _LARGEST_MINIMUM)
    groups: dict[str, dict[int, tuple[list[LabeledBox], list[LabeledBox]]]] = {}
    for side, boxes in ((1, scene.truths), (0, scene.predictions)):
        for box in boxes:
            images = groups.setdefault(normalise_label(box.label), {})
            images.setdefault(box.image, ([], []))[side].append(box)
    matches: dict[str, CategoryMatch] = {}
    for label, images in groups.items():
        parts: list[NDArray[np.bool_]] = []
        for _, (predictions, truths) in sorted(images.items()):
            predicted = as_array(box.xyxy for box in predictions[:MAX_PREDICTIONS])
            parts.append(_hits(pairwise_iou(predicted, as_array(box.xyxy for box in truths)), minima))
        num_truths = sum(len(truths) for _, truths in images.values())
        matches[label] = CategoryMatch(hits=np.concatenate(parts, axis=1), num_truths=num_truths)
    return matches


def accumulate(
    hits: NDArray[np.bool_], category: NDArray[np.int64], num_truths: NDArray[np.int64]
) -> Float64:
    """Average precision per threshold and category.

    hits        bool [T, D] in ranked order inside a category
    category    int64 [D], not decreasing, values in [0, K)
    num_truths  int64 [K]
    returns     float64 [T, K], nan for a category without true boxes

    Precision only matters where recall rises, that is at true positives. The j-th true positive of n true
    boxes answers for the recall levels in ((j-1)/n, j/n], at the best precision from there on.
    """
    num_thresholds, num_categories = len(hits), len(num_truths)
    first = np.searchsorted(category, np.arange(num_categories))
    rows, columns = np.nonzero(hits)
    kind = category[columns]
    group = rows * num_categories + kind
    found = np.arange(len(group)) - np.searchsorted(group, group) + 1
    precision = found / (columns - first[kind] + 1)
    # running maximum from the right inside each group, exact: on ranks, lifted group by group
    distinct, rank = np.unique(precision, return_inverse=True)
    lift = (num_thresholds * num_categories - group) * max(len(distinct), 1)
    envelope = distinct[np.maximum.accumulate((rank + lift)[::-1])[::-1] - lift]
    total = num_truths[kind]
    upper = np.searchsorted(RECALL_LEVELS, found / total, side="right")
    lower = np.searchsorted(RECALL_LEVELS, (found - 1) / total, side="right")
    levels = upper - np.where(found == 1, 0, lower)
    area = np.bincount(group, weights=envelope * levels, minlength=num_thresholds * num_categories)
    result = area.reshape(num_thresholds, num_categories) / len(RECALL_LEVELS)
    return np.where(num_truths > 0, result, np.nan)


def scene_average_precision(scene: Scene, thresholds: Sequence[float]) -> float:
    """Mean AP of one scene over `thresholds` and the categories of its true boxes; nan without true boxes.

    Predictions of other categories do not count, as in COCO.
    """
    matches = [match for match in match_scene(scene, thresholds).values() if match.num_truths]
    if not matches:
        return float("nan")
    sizes = [match.hits.shape[1] for match in matches]
    hits = np.concatenate([match.hits for match in matches], axis=1)
    category = np.repeat(np.arange(len(matches)), sizes)
    num_truths = np.array([match.num_truths for match in matches])
    return float(accumulate(hits, category, num_truths).mean())


def count_duplicates(boxes: Sequence[LabeledBox], *, iou_above: float = 0.9) -> int:
    """Boxes that repeat an earlier one: same label and image, IoU > `iou_above` (jitter does not hide it)."""
    groups: dict[tuple[str, int], list[LabeledBox]] = {}
    for box in boxes:
        groups.setdefault((normalise_label(box.label), box.image), []).append(box)
    count = 0
    for group in groups.values():
        array = as_array(box.xyxy for box in group)
        for index in range(1, len(array)):
            count += bool((pairwise_iou(array[index : index + 1], array[:index]) > iou_above).any())
    return count
