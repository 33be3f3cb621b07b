"""One-to-one matching reward: the matched IoU as a share of the longer of the two lists.

    r = (largest total IoU of a one-to-one matching) / max(|P|, |G|), in [0, 1]

over pairs of equal normalised label and image with IoU >= `threshold`; |P| counts every claimed item.

Our variant of the reward matching of Perception-R1 (Yu et al. 2025, arXiv 2504.07954) and VisionReasoner
(Liu et al. 2025, arXiv 2505.12081), which both assign answers to truths with the Hungarian algorithm. The
first adds up parts for format, count, class and IoU; the second pays 1 / max(|P|, |G|) for each assigned pair
with an IoU above 0.5, besides parts for distances. Here a pair pays its IoU, a wrong label is no pair, and
refused items and unknown labels lengthen |P|. Without true boxes r is 1 for a well-formed "none" and 0 for
anything else.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from groundrl.config.registry import register
from groundrl.errors import ConfigError
from groundrl.rewards.base import ScoreContext, TermConfig
from groundrl.rewards.matched import best_total, group_ious, negative_value
from groundrl.types import Rollout, Sample, Scored, Task


@dataclass(frozen=True, slots=True, kw_only=True)
class Hungarian:
    """See the module; detail: `matched_iou`, the total, and `longer`, what it is divided by."""

    tasks = frozenset({Task.ovd})
    needs = ()

    threshold: float = 0.5

    def score(self, rollout: Rollout, sample: Sample, context: ScoreContext) -> Scored:
        answer, truth = context.answer, sample.truth
        total = math.fsum(
            best_total(np.where(iou >= self.threshold, iou, 0.0)) for iou in group_ious(answer, truth)
        )
        longer = max(answer.num_items, len(truth.boxes))
        value = total / longer if truth.boxes else negative_value(answer)
        return Scored(value, {"matched_iou": total, "longer": float(longer)})


@register("reward/term", "hungarian")
@dataclass(kw_only=True, slots=True)
class HungarianConfig(TermConfig):
    """`threshold`: the least IoU of a pair."""

    threshold: float = 0.5

    def __post_init__(self) -> None:
        TermConfig.__post_init__(self)
        if not 0 < self.threshold <= 1:
            raise ConfigError("threshold", "must be in (0, 1]", got=self.threshold, todo="use e.g. 0.5")

    def build(self) -> Hungarian:
        return Hungarian(threshold=self.threshold)
