"""Average precision that no order of emission can raise: ties are resolved against the answer.

All claimed items have the same score, so their ranking is free. With TP_t of the |P| items right at IoU
threshold t (a maximum one-to-one matching, labels and images agreeing) and |G| true boxes,

    AP_t = TP_t / |P| * (share of the 101 recall levels 0, 0.01, ..., 1 that are <= TP_t / |G|)

and r is its mean over the thresholds. That is the interpolated AP of one list over all labels in which every
false positive ranks first: the precision at the j-th true positive is then j / (|P| - TP_t + j), which grows
with j, so each recall level that is reached at all gets the largest, TP_t / |P|.

Our definition. It differs from `ap` (VLM-R1, section 3.2) in that unknown labels, refused items and copies
are false positives, labels are not averaged, all items count (COCO: 100 a label), and the order is nothing.
A copy still pays where it hits a second, overlapping true box. Without true boxes r is 1 for a well-formed
"none" and 0 for anything else.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from groundrl.config.registry import register
from groundrl.parsing.answer import Answer
from groundrl.rewards.ap import check_thresholds
from groundrl.rewards.base import ScoreContext, TermConfig
from groundrl.rewards.detection import COCO_THRESHOLDS, RECALL_LEVELS
from groundrl.rewards.matched import negative_value, true_positives
from groundrl.types import Rollout, Sample, Scored, Task, Truth


def strict_average_precision(answer: Answer, truth: Truth, thresholds: Sequence[float]) -> float:
    """The mean of AP_t over `thresholds`, in [0, 1]."""
    if not truth.boxes:
        return negative_value(answer)
    if not answer.boxes:
        return 0.0
    hits = true_positives(answer, truth, thresholds)
    reached = np.searchsorted(RECALL_LEVELS, hits / len(truth.boxes), side="right") / len(RECALL_LEVELS)
    return float(np.mean(hits / answer.num_items * reached))


@dataclass(frozen=True, slots=True, kw_only=True)
class StrictAveragePrecision:
    """See the module; detail: number of true boxes and of claimed items."""

    tasks = frozenset({Task.ovd})
    needs = ()

    thresholds: tuple[float, ...] = COCO_THRESHOLDS

    def score(self, rollout: Rollout, sample: Sample, context: ScoreContext) -> Scored:
        value = strict_average_precision(context.answer, sample.truth, self.thresholds)
        detail = {"truths": float(len(sample.truth.boxes)), "items": float(context.answer.num_items)}
        return Scored(value, detail)


@register("reward/term", "ap_strict")
@dataclass(kw_only=True, slots=True)
class StrictApConfig(TermConfig):
    """`thresholds`: IoU thresholds that AP_t is averaged over, by default COCO's ten."""

    thresholds: list[float] = field(default_factory=lambda: list(COCO_THRESHOLDS))

    def __post_init__(self) -> None:
        TermConfig.__post_init__(self)
        check_thresholds(self.thresholds)

    def build(self) -> StrictAveragePrecision:
        return StrictAveragePrecision(thresholds=tuple(self.thresholds))
