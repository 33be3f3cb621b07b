"""IoU that is paid only from a threshold on, which rises with training progress.

    r = IoU if IoU >= threshold(progress) else 0

The schedule is V-Triune's (Ma et al. 2025, arXiv 2505.18129, "Dynamic IoU"): 0.85 for the first 10 % of
training, 0.95 up to 25 %, then 0.99. Deviations: that work applies it to matched detection boxes and adds a
completeness part and a penalty on their number, while this term scores the one box of a referring expression;
at exactly 10 % and 25 % its released code keeps the lower threshold, here the new one begins.

Evaluation before training has progress 0 and evaluation after it progress 1, so their values of this term
are not comparable with each other; compare the detail `iou`, or a metric.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from groundrl.config.registry import register
from groundrl.errors import ConfigError
from groundrl.rewards.ap import check_thresholds
from groundrl.rewards.base import ScoreContext, TermConfig
from groundrl.rewards.iou import answer_iou
from groundrl.types import Rollout, Sample, Scored, Task

STARTS = (0.0, 0.10, 0.25)
THRESHOLDS = (0.85, 0.95, 0.99)


def check_starts(starts: Sequence[float], thresholds: Sequence[float]) -> None:
    """Raise ConfigError unless `starts` increase from 0, stay below 1, and are as many as `thresholds`."""
    if len(starts) != len(thresholds):
        problem = f"must be as many as the {len(thresholds)} thresholds"
        raise ConfigError("starts", problem, got=list(starts), todo="give each threshold its start")
    if starts[0] != 0 or not all(earlier < later < 1 for earlier, later in pairwise(starts)):
        problem = "must be 0 and then shares of training that increase and stay below 1"
        raise ConfigError("starts", problem, got=list(starts), todo="use e.g. [0, 0.1, 0.25]")


@dataclass(frozen=True, slots=True, kw_only=True)
class DynamicIou:
    """Threshold i is in force from progress `starts[i]` on; detail: that `threshold` and the `iou`."""

    tasks = frozenset({Task.rec})
    needs = ()

    starts: tuple[float, ...] = STARTS
    thresholds: tuple[float, ...] = THRESHOLDS
    binary: bool = False

    def score(self, rollout: Rollout, sample: Sample, context: ScoreContext) -> Scored:
        threshold = self.thresholds[max(bisect_right(self.starts, context.progress), 1) - 1]
        iou = answer_iou(context.answer, sample.truth)
        paid = 1.0 if self.binary else iou
        return Scored(paid if iou >= threshold else 0.0, {"threshold": threshold, "iou": iou})


@register("reward/term", "dynamic_iou")
@dataclass(kw_only=True, slots=True)
class DynamicIouConfig(TermConfig):
    """`starts`: share of training from which each of the `thresholds` is in force; `binary`: pay 1 instead of
    the IoU."""

    starts: list[float] = field(default_factory=lambda: list(STARTS))
    thresholds: list[float] = field(default_factory=lambda: list(THRESHOLDS))
    binary: bool = False

    def __post_init__(self) -> None:
        TermConfig.__post_init__(self)
        check_thresholds(self.thresholds)
        check_starts(self.starts, self.thresholds)

    def build(self) -> DynamicIou:
        return DynamicIou(starts=tuple(self.starts), thresholds=tuple(self.thresholds), binary=self.binary)
