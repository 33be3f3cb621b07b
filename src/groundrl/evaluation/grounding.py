"""Metrics of one grounded answer: where it points (rec), and whether it sees what is not there (ovd)."""

from __future__ import annotations

from collections.abc import Sequence

from groundrl.parsing.answer import Answer
from groundrl.rewards.iou import answer_iou
from groundrl.types import Truth

CORRECT_IOU = 0.5
ACCURACY_IOUS = (CORRECT_IOU, 0.75, 0.9)


def accuracy_name(threshold: float) -> str:
    """acc50 for 0.5, acc75 for 0.75."""
    return f"acc{100 * threshold:g}"


def rec_values(
    answer: Answer, truth: Truth, *, thresholds: Sequence[float] = ACCURACY_IOUS
) -> dict[str, float]:
    """`iou`, and per threshold `acc<percent>`: 1 if the IoU is strictly greater (as VLM-R1's evaluation of
    referring expressions at 0.5), else 0. An answer without a box has IoU 0."""
    iou = answer_iou(answer, truth)
    return {"iou": iou, **{accuracy_name(threshold): float(iou > threshold) for threshold in thresholds}}


def false_alarm(answer: Answer) -> float:
    """1 if the answer claims anything, refused items included: for images without any of the targets."""
    return float(answer.num_items > 0)
