"""odLength: average precision times a penalty for claiming more boxes than there are.

    r = AP(P, G) * min(1, |G| / |P|)

(VLM-R1, section 3.2, the OVD accuracy reward with its factor s_ovd.) |P| counts every item of the answer:
labels that were not asked for and items the parser refused included; with `released_code`, every entry of the
list that was read. Deviations: those of `ap`.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from groundrl.config.registry import register
from groundrl.rewards.ap import answer_average_precision, check_thresholds, released_average_precision
from groundrl.rewards.base import Compat, ScoreContext, TermConfig
from groundrl.rewards.detection import COCO_THRESHOLDS
from groundrl.types import Rollout, Sample, Scored, Task


@dataclass(frozen=True, slots=True, kw_only=True)
class OdLength:
    """detail: `map` and `length_factor`, whose product is the value."""

    tasks = frozenset({Task.ovd})
    needs = ()

    thresholds: tuple[float, ...] = COCO_THRESHOLDS
    compat: Compat = Compat.paper

    def score(self, rollout: Rollout, sample: Sample, context: ScoreContext) -> Scored:
        if self.compat is Compat.released_code:
            value, claimed = released_average_precision(rollout, sample, self.thresholds)
        else:
            value = answer_average_precision(context.answer, sample, self.thresholds)
            claimed = context.answer.num_items
        factor = min(1.0, len(sample.truth.boxes) / claimed) if claimed else 1.0
        return Scored(value * factor, {"map": value, "length_factor": factor})


@register("reward/term", "odlength")
@dataclass(kw_only=True, slots=True)
class OdLengthConfig(TermConfig):
    """`thresholds`: IoU thresholds the AP is averaged over; `compat`: whose reading of the answer."""

    thresholds: list[float] = field(default_factory=lambda: list(COCO_THRESHOLDS))
    compat: Compat = Compat.paper

    def __post_init__(self) -> None:
        TermConfig.__post_init__(self)
        check_thresholds(self.thresholds)

    def build(self) -> OdLength:
        return OdLength(thresholds=tuple(self.thresholds), compat=self.compat)
