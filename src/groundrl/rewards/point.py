"""F1 of answered points against target regions: pointing, as users of VLM-R1 asked for (issue #84).

    r = 2 hits / (|P| + |G|)

A point hits a region if it lies in its half-open box on the same image and their labels agree; hits are
counted by a maximum one-to-one matching, so many points on one region are one hit. |P| counts every claimed
item, refused ones included. One point for one region is worth 1 or 0. Our definition: the distance-based
reward reported in that issue taught a policy to answer the middle of the image, so a near miss earns nothing
here. Without regions r is 1 for a well-formed "none" and 0 for anything else.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from groundrl.config.registry import register
from groundrl.geometry.boxes import Float64
from groundrl.geometry.labels import normalise_label
from groundrl.rewards.base import ScoreContext, TermConfig
from groundrl.rewards.matched import best_total, negative_value
from groundrl.types import LabeledBox, LabeledPoint, Rollout, Sample, Scored, Task


def point_hits(points: Sequence[LabeledPoint], regions: Sequence[LabeledBox]) -> Float64:
    """1 where a point hits a region, else 0: float64 [N, M].

    Labels are compared normalised. A region without a label takes any point; a point without one fits every
    region unless these have several labels.
    """
    wanted = [normalise_label(region.label) for region in regions]
    unlabelled_fits = len(set(wanted) - {""}) <= 1

    def hit(point: LabeledPoint, label: str, region: LabeledBox, want: str) -> bool:
        x1, y1, x2, y2 = region.xyxy
        inside = x1 <= point.xy[0] < x2 and y1 <= point.xy[1] < y2
        agree = label == want or not want or (not label and unlabelled_fits)
        return inside and agree and point.image == region.image

    table = [
        [hit(point, label, region, want) for region, want in zip(regions, wanted, strict=True)]
        for point, label in ((point, normalise_label(point.label)) for point in points)
    ]
    return np.array(table, dtype=np.float64).reshape(len(points), len(regions))


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """See the module; detail: `hits`, number of regions and of claimed items."""

    tasks = frozenset({Task.point})
    needs = ()

    def score(self, rollout: Rollout, sample: Sample, context: ScoreContext) -> Scored:
        answer, regions = context.answer, sample.truth.boxes
        hits = best_total(point_hits(answer.points, regions))
        value = 2 * hits / (answer.num_items + len(regions)) if regions else negative_value(answer)
        detail = {"hits": hits, "regions": float(len(regions)), "items": float(answer.num_items)}
        return Scored(value, detail)


@register("reward/term", "point")
@dataclass(kw_only=True, slots=True)
class PointConfig(TermConfig):
    """Nothing to set but the weight."""

    def build(self) -> Point:
        return Point()
