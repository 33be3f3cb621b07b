"""COCO average precision when every prediction has score 1, for one image or a set of them.

The numbers equal pycocotools' (at most 100 predictions per image and category) on the same boxes, over
boxes of all sizes or of a range of sizes. With equal scores the ranking is the order of emission inside an
image, then the order of images: a false positive written first costs more than one written last. Matching
is done once per image and category; what it yields can be accumulated over any set of images, which
bootstrap resampling needs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from groundrl.geometry.boxes import Float64, area, as_array, pairwise_iou
from groundrl.geometry.labels import normalise_label
from groundrl.parsing.answer import Answer
from groundrl.types import LabeledBox, Sample

COCO_THRESHOLDS = (0.5, 0.55, 0.6, 0.65, 0.7, 0.75, 0.8, 0.85, 0.9, 0.95)
MAX_PREDICTIONS = 100
RECALL_LEVELS = np.linspace(0.0, 1.0, 101)
LARGEST_MINIMUM = 1 - 1e-10
_BLOCK = 256

Bool = NDArray[np.bool_]
Int64 = NDArray[np.int64]
SizeRange = tuple[float, float]
"""Smallest and largest area of a box in square pixels, both included."""


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
    """One category of one scene, for A size ranges and T thresholds; row a * T + t is range a at threshold t.

    hits        bool [A * T, D]: prediction d is a true positive
    ignored     bool [A * T, D]: prediction d is neither true nor false; None if none is ignored
    num_truths  int64 [A]: true boxes that are not ignored
    """

    hits: Bool
    ignored: Bool | None
    num_truths: Int64


def scene_of(answer: Answer, sample: Sample) -> Scene:
    """The scene of a parsed detection answer."""
    return Scene(predictions=answer.boxes, truths=sample.truth.boxes, rejected=len(answer.rejected))


def _assign(iou: Float64, minima: Float64, regular: Bool | None = None) -> Int64:
    """Greedy assignment in order of emission: iou [D, G], minima [R] -> index of the true box [R, D], or -1.

    Each prediction takes the free true box of largest IoU, the last of equal ones. One that is not `regular`
    ([R, G]) is only taken where no free regular one fits.
    """
    num_predictions, num_truths = iou.shape
    assigned = np.full((len(minima), num_predictions), -1, dtype=np.int64)
    free = np.ones((len(minima), num_truths), dtype=np.bool_)
    rows = np.arange(len(minima))
    for index in np.flatnonzero((iou >= minima.min()).any(axis=1)):
        candidates = np.where(free & (iou[index] >= minima[:, None]), iou[index], -1.0)
        if regular is not None:
            favoured = np.where(regular, candidates, -1.0)
            candidates = np.where((favoured >= 0).any(axis=1, keepdims=True), favoured, candidates)
        best = num_truths - 1 - candidates[:, ::-1].argmax(axis=1)
        hit = candidates[rows, best] >= 0
        free[rows[hit], best[hit]] = False
        assigned[hit, index] = best[hit]
    return assigned


def _overlaps(predicted: Float64, true: Float64) -> Float64:
    """IoU [D, G]; mostly one of the two is empty, which needs no arithmetic."""
    if len(predicted) and len(true):
        return pairwise_iou(predicted, true)
    return np.zeros((len(predicted), len(true)))


def _inside(boxes: Float64, sizes: Sequence[SizeRange]) -> Bool:
    """Which boxes [N, 4] have an area in which range: bool [A, N]."""
    areas = area(boxes)
    return np.array([(low <= areas) & (areas <= high) for low, high in sizes]).reshape(len(sizes), -1)


def _match_sizes(
    predicted: Float64, true: Float64, minima: Float64, sizes: Sequence[SizeRange]
) -> CategoryMatch:
    """One category of one image. True boxes outside a range are ignored, and with them the predictions that
    take one and the unmatched predictions outside the range."""
    inside = _inside(true, sizes)
    regular = np.repeat(inside, len(minima), axis=0)
    outside = np.repeat(~_inside(predicted, sizes), len(minima), axis=0)
    assigned = _assign(_overlaps(predicted, true), np.tile(minima, len(sizes)), regular)
    matched = assigned >= 0
    padded = np.concatenate([regular, np.zeros((len(regular), 1), dtype=np.bool_)], axis=1)
    hits = np.take_along_axis(padded, assigned, axis=1)  # -1 takes the padding
    ignored = np.where(matched, ~hits, outside)
    return CategoryMatch(hits=hits, ignored=ignored, num_truths=inside.sum(axis=1))


def _match_image(
    predicted: Float64, true: Float64, minima: Float64, sizes: Sequence[SizeRange] | None
) -> CategoryMatch:
    if sizes is not None:
        return _match_sizes(predicted, true, minima, sizes)
    hits = _assign(_overlaps(predicted, true), minima) >= 0
    return CategoryMatch(hits=hits, ignored=None, num_truths=np.array([len(true)], dtype=np.int64))


def match_scene(
    scene: Scene, thresholds: Sequence[float], sizes: Sequence[SizeRange] | None = None
) -> dict[str, CategoryMatch]:
    """Match a scene per category (normalised label) and image; categories in order of first appearance.

    thresholds  IoU thresholds [T]
    sizes       ranges of box areas [A]; None is one range of all areas
    """
    minima = np.minimum(np.asarray(thresholds, dtype=np.float64), LARGEST_MINIMUM)
    groups: dict[str, dict[int, tuple[list[LabeledBox], list[LabeledBox]]]] = {}
    for side, boxes in ((1, scene.truths), (0, scene.predictions)):
        for box in boxes:
            images = groups.setdefault(normalise_label(box.label), {})
            images.setdefault(box.image, ([], []))[side].append(box)
    matches: dict[str, CategoryMatch] = {}
    for label, images in groups.items():
        parts: list[CategoryMatch] = []
        for _, (predictions, truths) in sorted(images.items()):
            predicted = as_array(box.xyxy for box in predictions[:MAX_PREDICTIONS])
            parts.append(_match_image(predicted, as_array(box.xyxy for box in truths), minima, sizes))
        matches[label] = parts[0] if len(parts) == 1 else _joined(parts)
    return matches


def _joined(parts: Sequence[CategoryMatch]) -> CategoryMatch:
    """The matches of several images as one, image after image."""
    ignored = [part.ignored for part in parts if part.ignored is not None]
    return CategoryMatch(
        hits=np.concatenate([part.hits for part in parts], axis=1),
        ignored=np.concatenate(ignored, axis=1) if ignored else None,
        num_truths=np.sum([part.num_truths for part in parts], axis=0),
    )


def accumulate(
    hits: Bool, category: Int64, num_truths: Int64, *, rank: NDArray[np.int32] | None = None
) -> Float64:
    """Average precision per row (a threshold, of a size range) and category.

    hits        bool [R, D] in ranked order inside a category; predictions that are a hit in no row may be
                left out if `rank` is given
    category    int64 [D], not decreasing, values in [0, K)
    num_truths  int64 [K], or [R, K] where rows differ
    rank        int32 [R, D], from 1 in each row and category, read at hits only; None: every prediction of
                the category counts
    returns     float64 [R, K], nan where there are no true boxes

    Precision only matters where recall rises, that is at true positives. The j-th true positive of n true
    boxes answers for the recall levels in ((j-1)/n, j/n], at the best precision from there on.
    """
    truths = np.broadcast_to(num_truths, (len(hits), num_truths.shape[-1]))
    num_rows, num_categories = truths.shape
    rows, columns = np.nonzero(hits)
    kind = category[columns]
    group = rows * num_categories + kind
    found = np.arange(len(group)) - np.searchsorted(group, group) + 1
    if rank is None:
        first = np.searchsorted(category, np.arange(num_categories))
        precision = found / (columns - first[kind] + 1)
    else:
        precision = found / rank[rows, columns]
    # running maximum from the right inside each group, exact: on places in order of size, lifted by group
    distinct, place = np.unique(precision, return_inverse=True)
    lift = (num_rows * num_categories - group) * max(len(distinct), 1)
    envelope = distinct[np.maximum.accumulate((place + lift)[::-1])[::-1] - lift]
    total = truths[rows, kind]
    upper = np.searchsorted(RECALL_LEVELS, found / total, side="right")
    lower = np.searchsorted(RECALL_LEVELS, (found - 1) / total, side="right")
    levels = upper - np.where(found == 1, 0, lower)
    covered = np.bincount(group, weights=envelope * levels, minlength=num_rows * num_categories)
    result = covered.reshape(num_rows, num_categories) / len(RECALL_LEVELS)
    return np.where(truths > 0, result, np.nan)


def count_duplicates(boxes: Sequence[LabeledBox], *, iou_above: float = 0.9) -> int:
    """Boxes that repeat an earlier one: same label and image, IoU > `iou_above` (jitter does not hide it)."""
    groups: dict[tuple[str, int], list[LabeledBox]] = {}
    for box in boxes:
        groups.setdefault((normalise_label(box.label), box.image), []).append(box)
    count = 0
    for group in groups.values():
        array = as_array(box.xyxy for box in group)
        for start in range(0, len(array), _BLOCK):  # bounds the memory of very long answers
            block = array[start : start + _BLOCK]
            repeats = pairwise_iou(block, array[: start + len(block)]) > iou_above
            count += int(np.tril(repeats, start - 1).any(axis=1).sum())
    return count
