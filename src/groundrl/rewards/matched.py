"""One-to-one matching of an answer with the truth, whatever order the answer was written in.

Only pairs of equal normalised label on the same image can match. `Answer.num_items` is the |P| that belongs
to it: every claimed item, refused ones and unknown labels included.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from groundrl.geometry.boxes import Float64, as_array, pairwise_iou
from groundrl.geometry.labels import normalise_label
from groundrl.geometry.matching import hungarian_match
from groundrl.parsing.answer import Answer, ParseStatus
from groundrl.types import XYXY, LabeledBox, Truth


def negative_value(answer: Answer) -> float:
    """What an answer earns where the truth is that nothing is there: 1 for a well-formed "none", else 0."""
    return float(answer.status is ParseStatus.NONE)


def _grouped(boxes: Sequence[LabeledBox]) -> dict[tuple[str, int], list[XYXY]]:
    groups: dict[tuple[str, int], list[XYXY]] = {}
    for box in boxes:
        groups.setdefault((normalise_label(box.label), box.image), []).append(box.xyxy)
    return groups


def group_ious(answer: Answer, truth: Truth) -> list[Float64]:
    """IoU matrices [D, G], one for each normalised label and image that has boxes on both sides."""
    predictions = _grouped(answer.boxes)
    return [
        pairwise_iou(as_array(predictions[key]), as_array(truths))
        for key, truths in _grouped(truth.boxes).items()
        if key in predictions
    ]


def best_total(weights: Float64) -> float:
    """The total weight of the heaviest one-to-one matching; weights [D, G] >= 0, where 0 cannot match.

    With weights of 0 and 1 that is the size of a maximum matching. Where one side has no choice, which is
    nearly always, no assignment problem is solved.
    """
    linked = weights > 0
    for axis in (0, 1):
        if linked.sum(axis=1 - axis).max(initial=0) <= 1:
            return math.fsum(weights.max(axis=axis, initial=0.0))
    return math.fsum(weights[pair] for pair in hungarian_match(weights, threshold=0.0))


def true_positives(answer: Answer, truth: Truth, thresholds: Sequence[float]) -> NDArray[np.int64]:
    """TP_t, the size of a maximum one-to-one matching of pairs with IoU >= t, for each threshold: int64 [T].

    The matching of largest total IoU can have fewer pairs (two perfect ones against three fair ones), and a
    greedy one depends on the order, so neither is used.
    """
    counts = np.zeros(len(thresholds), dtype=np.int64)
    for iou in group_ious(answer, truth):
        counts += [int(best_total((iou >= threshold).astype(np.float64))) for threshold in thresholds]
    return counts
