"""Position, label and completeness of a detection answer, weighed (VLM-R1 blog of 2025-03-24, section 4).

Predictions and truth are matched one to one, greedily by IoU and without regard to labels, while the IoU is
at least `iou_threshold`. A matched pair whose labels differ counts with IoU 0, and both stay taken.

    position      sum of the IoUs / |G|
    label         pairs with the right label / |G|
    completeness  1 - (unmatched of G / |G| + unmatched of P / |P|) / 2
    r             weighted mean of the three, weights 0.7, 0.0 and 0.3

G empty: 1 where the answer says that nothing is there, else 0. P empty and G not: 0. Equal IoUs are taken in
the order of emission, so two labels on one box are settled by the first.

Deviations of `paper` from the released code, all of which `released_code` takes back: labels are compared
normalised, not just lower-cased; bare JSON, a single object and numeric strings are read; the last fence of
the answer is read, where the released code reads the first; several answer blocks, or none, leave nothing
to read, where it reads the last, or the whole text; items the parser refuses count in |P|, as every entry
does there too; boxes are clipped; an overlap of one pixel counts; G empty is met by an empty list too, where
it takes the word alone. The released code stops the run where the first pair's prediction has no label,
which is 0 here, and lets a later one inherit the label of the pair before.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from groundrl.config.registry import register
from groundrl.errors import ConfigError
from groundrl.geometry.boxes import as_array, pairwise_iou
from groundrl.geometry.labels import normalise_label
from groundrl.geometry.matching import greedy_match
from groundrl.parsing.answer import Answer, ParseStatus
from groundrl.parsing.tags import ANSWER
from groundrl.rewards.base import Compat, ScoreContext, TermConfig
from groundrl.rewards.released import JSON_FENCE, first_block, last_block, read_items, released_iou
from groundrl.types import LabeledBox, Rollout, Sample, Scored, Task

_NO_BOX = (0.0, 0.0, 0.0, 0.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class WeightedSum:
    """detail: `position`, `label`, `completeness` (all in [0, 1]) and `matched`, the number of pairs."""

    tasks = frozenset({Task.ovd})
    needs = ()

    position_weight: float = 0.7
    label_weight: float = 0.0
    completeness_weight: float = 0.3
    iou_threshold: float = 0.5
    compat: Compat = Compat.paper

    def score(self, rollout: Rollout, sample: Sample, context: ScoreContext) -> Scored:
        if self.compat is Compat.released_code:
            return self._released(rollout, sample.truth.boxes)
        return self._paper(context.answer, sample.truth.boxes)

    def _paper(self, answer: Answer, truths: Sequence[LabeledBox]) -> Scored:
        if not truths:
            return _plain(answer.status is ParseStatus.NONE)
        if not answer.boxes:
            return _plain(False)
        iou = pairwise_iou(as_array(box.xyxy for box in answer.boxes), as_array(box.xyxy for box in truths))
        shared = np.equal.outer([box.image for box in answer.boxes], [box.image for box in truths])
        iou = np.where(shared, iou, 0.0)
        pairs = greedy_match(iou, threshold=self.iou_threshold)
        said = [normalise_label(box.label) for box in answer.boxes]
        true = [normalise_label(box.label) for box in truths]
        right = [float(iou[row, column]) for row, column in pairs if said[row] == true[column]]
        return self._weighed(right, len(pairs), len(truths), answer.num_items)

    def _released(self, rollout: Rollout, truths: Sequence[LabeledBox]) -> Scored:
        body = last_block(rollout.text, ANSWER)
        text = (rollout.text if body is None else body).strip().rstrip(".").lower()
        if not truths:
            return _plain(text == "none")
        items = read_items(first_block(text, JSON_FENCE), rollout)
        iou = released_iou(
            as_array(item.xyxy or _NO_BOX for item in items), as_array(box.xyxy for box in truths)
        )
        pairs = greedy_match(iou, threshold=self.iou_threshold)
        right: list[float] = []
        label: object = None
        for row, column in pairs:
            label = label if items[row].label is None else items[row].label
            if label is None:
                return _plain(False)
            if label == truths[column].label.lower():
                right.append(float(iou[row, column]))
        return self._weighed(right, len(pairs), len(truths), len(items)) if items else _plain(False)

    def _weighed(self, right: Sequence[float], matched: int, truths: int, claimed: int) -> Scored:
        """right: IoUs of the pairs with the right label; neither side is empty."""
        position, label = math.fsum(right) / truths, len(right) / truths
        missed, false_alarms = (truths - matched) / truths, (claimed - matched) / claimed
        completeness = 1 - (missed + false_alarms) / 2
        weighed = (
            self.position_weight * position
            + self.label_weight * label
            + self.completeness_weight * completeness
        )
        value = weighed / (self.position_weight + self.label_weight + self.completeness_weight)
        return Scored(
            value,
            {"position": position, "label": label, "completeness": completeness, "matched": float(matched)},
        )


def _plain(right: bool) -> Scored:
    """All or nothing, where one side is empty."""
    value = float(right)
    return Scored(value, {"position": value, "label": value, "completeness": value, "matched": 0.0})


@register("reward/term", "weighted_sum")
@dataclass(kw_only=True, slots=True)
class WeightedSumConfig(TermConfig):
    """Weights of the three parts, the IoU a pair needs, and whose reading of the answer (`compat`)."""

    position_weight: float = 0.7
    label_weight: float = 0.0
    completeness_weight: float = 0.3
    iou_threshold: float = 0.5
    compat: Compat = Compat.paper

    def __post_init__(self) -> None:
        TermConfig.__post_init__(self)
        weights = {
            "position_weight": self.position_weight,
            "label_weight": self.label_weight,
            "completeness_weight": self.completeness_weight,
        }
        for name, weight in weights.items():
            if not 0 <= weight < 1e6:
                raise ConfigError(name, "must be a finite number >= 0", got=weight, todo="use e.g. 0.5")
        if not sum(weights.values()) > 1e-6:
            raise ConfigError("position_weight", "all three weights are zero", todo="give one part a weight")
        if not 0 < self.iou_threshold <= 1:
            raise ConfigError("iou_threshold", "must be in (0, 1]", got=self.iou_threshold, todo="e.g. 0.5")

    def build(self) -> WeightedSum:
        return WeightedSum(
            position_weight=self.position_weight,
            label_weight=self.label_weight,
            completeness_weight=self.completeness_weight,
            iou_threshold=self.iou_threshold,
            compat=self.compat,
        )
