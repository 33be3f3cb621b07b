"""F1 of the claimed items: the harmonic mean of precision and recall, averaged over IoU thresholds.

    r = mean over t of 2 TP_t / (|P| + |G|)

TP_t is the size of a maximum one-to-one matching of pairs with IoU >= t, labels and images agreeing; |P|
counts every claimed item, unknown labels and refused items included. Our definition of a standard measure.
Without true boxes r is 1 for a well-formed "none" and 0 for anything else.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from groundrl.config.registry import register
from groundrl.rewards.ap import check_thresholds
from groundrl.rewards.base import ScoreContext, TermConfig
from groundrl.rewards.detection import COCO_THRESHOLDS
from groundrl.rewards.matched import negative_value, true_positives
from groundrl.types import Rollout, Sample, Scored, Task


@dataclass(frozen=True, slots=True, kw_only=True)
class F1:
    """See the module; detail: `precision` and `recall`, each averaged over the thresholds (0 where it has no
    denominator)."""

    tasks = frozenset({Task.ovd})
    needs = ()

    thresholds: tuple[float, ...] = COCO_THRESHOLDS

    def score(self, rollout: Rollout, sample: Sample, context: ScoreContext) -> Scored:
        answer, truth = context.answer, sample.truth
        claimed, true = answer.num_items, len(truth.boxes)
        hits = true_positives(answer, truth, self.thresholds)
        value = float(np.mean(2 * hits / (claimed + true))) if true else negative_value(answer)
        found = float(hits.mean())
        detail = {
            "precision": found / claimed if claimed else 0.0,
            "recall": found / true if true else 0.0,
        }
        return Scored(value, detail)


@register("reward/term", "f1")
@dataclass(kw_only=True, slots=True)
class F1Config(TermConfig):
    """`thresholds`: IoU thresholds that F1 is averaged over, by default COCO's ten."""

    thresholds: list[float] = field(default_factory=lambda: list(COCO_THRESHOLDS))

    def __post_init__(self) -> None:
        TermConfig.__post_init__(self)
        check_thresholds(self.thresholds)

    def build(self) -> F1:
        return F1(thresholds=tuple(self.thresholds))
