"""COCO average precision of one scene, without arrays: what AP rewards call on every rollout.

A scene has few boxes, so plain floats cost a tenth of many small array operations. `detection.accumulate` is
the form for sets of scenes; both equal pycocotools on one scene.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import Counter
from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from groundrl.geometry.labels import normalise_label
from groundrl.rewards.detection import LARGEST_MINIMUM, MAX_PREDICTIONS, RECALL_LEVELS
from groundrl.types import LabeledBox

TrueBox = tuple[float, float, float, float, float, int, int]
"""x1, y1, x2, y2, area, place, image; the area is 0 for a box that overlaps nothing."""

Group = tuple[list[LabeledBox], list[TrueBox]]
"""Predictions and true boxes of one category."""

Candidates = list[tuple[int, list[tuple[float, int]]]]
"""Per prediction that may hit: its rank, and (IoU, place) of the true boxes it may take, best first."""


@lru_cache(maxsize=256)
def _levels(num_truths: int) -> tuple[int, ...]:
    """How many of the 101 recall levels the j-th true positive answers for, j = 1, 2, ..., num_truths."""
    reached = np.searchsorted(RECALL_LEVELS, np.arange(1, num_truths + 1) / num_truths, side="right")
    return tuple(np.diff(reached, prepend=0).tolist())


@lru_cache(maxsize=64)
def _minima(thresholds: tuple[float, ...]) -> tuple[float, ...]:
    return tuple(sorted(min(float(threshold), LARGEST_MINIMUM) for threshold in thresholds))


def _area(x1: float, y1: float, x2: float, y2: float) -> float:
    """Area of a box, 0 for one that is degenerate or too large to have one."""
    if x1 < x2 and y1 < y2 and (area := (x2 - x1) * (y2 - y1)) < math.inf:
        return area
    return 0.0


def _ranked(predicted: list[LabeledBox]) -> list[LabeledBox]:
    """Predictions of one category in order: image after image, at most 100 of each."""
    seen: Counter[int] = Counter()
    kept: list[LabeledBox] = []
    for box in sorted(predicted, key=lambda box: box.image):
        seen[box.image] += 1
        if seen[box.image] <= MAX_PREDICTIONS:
            kept.append(box)
    return kept


def _candidates(predicted: list[LabeledBox], true: list[TrueBox], lowest: float) -> Candidates:
    found: Candidates = []
    for rank, ((ax1, ay1, ax2, ay2), _, own) in enumerate(predicted, start=1):
        area = -1.0
        options: list[tuple[float, int]] = []
        for bx1, by1, bx2, by2, other, place, image in true:
            if bx1 >= ax2 or ax1 >= bx2 or by1 >= ay2 or ay1 >= by2 or image != own:
                continue
            if area < 0:
                area = _area(ax1, ay1, ax2, ay2)
            width = (ax2 if ax2 < bx2 else bx2) - (ax1 if ax1 > bx1 else bx1)
            overlap = width * ((ay2 if ay2 < by2 else by2) - (ay1 if ay1 > by1 else by1))
            if area and other and (iou := overlap / (area + other - overlap)) >= lowest:
                options.append((iou, place))
        if options:
            if len(options) > 1:
                options.sort(reverse=True)  # equal IoU: the later true box first, as in COCO
            found.append((rank, options))
    return found


def _hits(candidates: Candidates, minimum: float) -> list[int]:
    """Ranks of the true positives at one threshold."""
    taken: set[int] = set()
    ranks: list[int] = []
    for rank, options in candidates:
        for iou, place in options:
            if iou < minimum:
                break
            if place not in taken:
                taken.add(place)
                ranks.append(rank)
                break
    return ranks


def _covered(ranks: list[int], levels: Sequence[int]) -> float:
    """Sum over the recall levels of the interpolated precision of true positives at `ranks`."""
    best = covered = 0.0
    found = len(ranks)
    for rank in reversed(ranks):
        precision = found / rank
        found -= 1
        if precision > best:
            best = precision
        covered += best * levels[found]
    return covered


def _category(predicted: list[LabeledBox], true: list[TrueBox], minima: Sequence[float]) -> float:
    """AP of one category, summed over the ascending thresholds `minima` and the recall levels."""
    candidates = _candidates(predicted, true, minima[0])
    if not candidates:
        return 0.0
    levels = _levels(len(true))
    if len(candidates) == 1:
        ((rank, options),) = candidates
        return bisect_right(minima, options[0][0]) * levels[0] / rank
    total, reached = 0.0, 0
    for overlap in sorted([iou for _, options in candidates for iou, _ in options]):
        # between two IoUs the hits are the same at every threshold
        upto = bisect_right(minima, overlap)
        if upto > reached:
            total += (upto - reached) * _covered(_hits(candidates, minima[reached]), levels)
            reached = upto
    return total


def scene_average_precision(
    predictions: Sequence[LabeledBox], truths: Sequence[LabeledBox], thresholds: Sequence[float]
) -> float:
    """Mean AP of one scene over `thresholds` and the categories of its true boxes; nan without true boxes.

    `predictions` in order of emission. Those of other categories do not count, as in COCO.
    """
    groups: dict[str, Group] = {}
    written: dict[str, Group | None] = {}  # by the label as it was written, which repeats
    for (x1, y1, x2, y2), label, image in truths:
        group = written.get(label)
        if group is None:
            group = written[label] = groups.setdefault(normalise_label(label), ([], []))
        true = group[1]
        true.append((x1, y1, x2, y2, _area(x1, y1, x2, y2), len(true), image))
    if not groups:
        return math.nan
    for box in predictions:
        label = box[1]
        if label not in written:
            written[label] = groups.get(normalise_label(label))
        group = written[label]
        if group is not None:
            group[0].append(box)
    minima = _minima(tuple(thresholds))
    usual = len(predictions) <= MAX_PREDICTIONS and len({box[2] for box in predictions}) <= 1
    total = 0.0
    for predicted, true in groups.values():
        if predicted:
            total += _category(predicted if usual else _ranked(predicted), true, minima)
    return total / (len(groups) * len(minima) * len(RECALL_LEVELS))
