"""Generalised IoU of the answered box with the true one: a slope where the boxes do not meet.

    GIoU = IoU - (|C| - |U|) / |C|, in (-1, 1]

with U the union and C the smallest box around both (Rezatofighi et al. 2019, "Generalized Intersection over
Union", algorithm 1). Areas have no floor, so boxes of any unit are treated alike. Ours is what happens
without a pair to compare: an unreadable answer, several boxes, none, or a box on another image earn -1, the
lower bound, so that not answering never pays more than a wrong box.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from groundrl.config.registry import register
from groundrl.geometry.boxes import area, as_array, pairwise_iou
from groundrl.parsing.answer import Answer
from groundrl.rewards.base import ScoreContext, TermConfig
from groundrl.rewards.iou import answer_iou
from groundrl.types import XYXY, Rollout, Sample, Scored, Task, Truth

LOWEST = -1.0


def generalised_iou(first: XYXY, second: XYXY) -> float:
    """GIoU of two boxes, always finite; -1 if one is degenerate, or vanishes beside the distance of the two.

    Computed in units of the enclosing box, where no product of sides overflows.
    """
    boxes = as_array([first, second])
    low, high = boxes[:, :2].min(axis=0), boxes[:, 2:].max(axis=0)
    with np.errstate(all="ignore"):
        sides = high - low
        unit = (boxes - np.tile(low, 2)) / np.tile(sides, 2)
        areas = area(unit)
    if not (sides > 0).all() or not areas.all():
        return LOWEST
    iou = float(pairwise_iou(unit[:1], unit[1:])[0, 0])
    union = float(areas.sum()) / (1 + iou)
    return iou - (1 - min(union, 1.0))


def answer_giou(answer: Answer, truth: Truth) -> float:
    """GIoU of the answer's one box with the best of the true boxes on its image; -1 without such a pair."""
    return max(
        (
            generalised_iou(box.xyxy, true.xyxy)
            for box in answer.boxes[:1]
            for true in truth.boxes
            if box.image == true.image
        ),
        default=LOWEST,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Giou:
    """See the module; detail: the plain `iou`."""

    tasks = frozenset({Task.rec})
    needs = ()

    def score(self, rollout: Rollout, sample: Sample, context: ScoreContext) -> Scored:
        value = answer_giou(context.answer, sample.truth)
        return Scored(value, {"iou": answer_iou(context.answer, sample.truth)})


@register("reward/term", "giou")
@dataclass(kw_only=True, slots=True)
class GiouConfig(TermConfig):
    """Nothing to set but the weight."""

    def build(self) -> Giou:
        return Giou()
