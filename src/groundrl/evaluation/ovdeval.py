"""OVDEval: AP after a suppression that looks at the truth, per sub-set, and its mean over aspects.

Open-vocabulary detectors tend to give one object several labels, and plain AP hardly minds. OVDEval (Yao et
al., How to Evaluate the Generalization of Detection?, NMS-AP) therefore leaves one prediction on each true
box, of whatever label, before it evaluates: with the wrong label it is a false positive and the true box is
missed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from groundrl.evaluation.coco import CocoMetrics, Scores, coco_metrics, confidences
from groundrl.geometry.boxes import Float64, as_array, pairwise_iou
from groundrl.rewards.detection import Scene

SUPPRESSION_IOU = 0.5

ASPECTS: dict[str, tuple[str, ...]] = {
    "proper_noun": ("celebrity", "logo", "landmark"),
    "attribute": ("color", "material"),
    "position": ("position",),
    "relationship": ("relationship",),
    "negation": ("negation",),
}
"""The sub-sets of each aspect, as the benchmark's files name them."""


def suppress(scene: Scene, scores: Sequence[float], *, iou_above: float = SUPPRESSION_IOU) -> list[int]:
    """Indices, ascending, of the predictions of a scene that stay.

    Of the predictions of any label whose IoU with a true box of the same image is > `iou_above`, that box
    keeps the one of highest score, of equal scores the last emitted. What is on some true box and kept by
    none is dropped; what is on none stays.
    """
    overlap = pairwise_iou(
        as_array(box.xyxy for box in scene.predictions), as_array(box.xyxy for box in scene.truths)
    )
    here = np.array([box.image for box in scene.predictions], dtype=np.int64)
    there = np.array([box.image for box in scene.truths], dtype=np.int64)
    touching = (overlap > iou_above) & (here[:, None] == there)
    kept = {
        max(np.flatnonzero(column).tolist(), key=lambda index: (scores[index], index))
        for column in touching.T
        if column.any()
    }
    return [index for index, row in enumerate(touching) if index in kept or not row.any()]


def nms_ap(scenes: Sequence[Scene], *, scores: Scores = Scores.ONES) -> CocoMetrics:
    """COCO metrics of one sub-set after `suppress`; scores are given before it."""
    left: list[Scene] = []
    numbers: list[list[float]] = []
    for scene in scenes:
        row = confidences(len(scene.predictions), scores)
        stay = suppress(scene, row)
        left.append(replace(scene, predictions=tuple(scene.predictions[index] for index in stay)))
        numbers.append([row[index] for index in stay])
    return coco_metrics(left, scores=numbers)


def aspect_weights(names: Sequence[str]) -> dict[str, Float64]:
    """The weight of each sub-set [S] in `aspect/<aspect>`, the mean of its sub-sets, and in `overall`, the
    mean of the five aspects (VLM-R1, OVDEval table: the rule its rows follow).

    An aspect of which a sub-set is not among `names` is left out, and then so is `overall`.
    """
    rows: dict[str, Float64] = {}
    for aspect, parts in ASPECTS.items():
        if all(part in names for part in parts):
            rows[f"aspect/{aspect}"] = np.array([(name in parts) / len(parts) for name in names])
    if len(rows) == len(ASPECTS):
        rows["overall"] = np.mean(list(rows.values()), axis=0)
    return rows
