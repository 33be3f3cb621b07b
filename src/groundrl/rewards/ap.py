"""Average precision of one answer (VLM-R1, section 3.2, "accuracy reward for OVD", before the length factor).

COCO semantics on a single image: categories that the truth does not hold are not scored, copies written
after the true positives are nearly free, and the value depends on the order of emission. That is the
published reward and its known weakness (VLM-R1, section 4.3, reward hacking); `odlength` and the detection
metrics are the remedy.

Deviations from the released code: labels are compared normalised; bare JSON is read as well as fenced; the
truth "nothing there" is only met by a well-formed "None" or empty list, where the released code also pays 1
for prose and for malformed JSON.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from groundrl.config.registry import register
from groundrl.errors import ConfigError
from groundrl.parsing.answer import Answer, ParseStatus
from groundrl.rewards.base import ScoreContext, TermConfig
from groundrl.rewards.detection import COCO_THRESHOLDS, scene_average_precision, scene_of
from groundrl.types import Rollout, Sample, Scored, Task


def answer_average_precision(answer: Answer, sample: Sample, thresholds: Sequence[float]) -> float:
    """Single-image AP in [0, 1]. Nothing true and nothing claimed: 1; exactly one of the two: 0."""
    if not sample.truth.boxes:
        return float(answer.status is ParseStatus.NONE)
    if not answer.boxes:
        return 0.0
    return scene_average_precision(scene_of(answer, sample), thresholds)


def check_thresholds(thresholds: Sequence[float]) -> None:
    """Raise ConfigError unless there is at least one IoU threshold and all are in (0, 1]."""
    if not thresholds or not all(0 < threshold <= 1 for threshold in thresholds):
        raise ConfigError(
            "thresholds", "must be IoU thresholds in (0, 1]", got=list(thresholds), todo="use e.g. [0.5]"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class AveragePrecision:
    """AP averaged over `thresholds`; detail: number of true boxes and of claimed items."""

    tasks: ClassVar[frozenset[Task]] = frozenset({Task.ovd})
    needs: ClassVar[tuple[str, ...]] = ()

    thresholds: tuple[float, ...] = COCO_THRESHOLDS

    def score(self, rollout: Rollout, sample: Sample, context: ScoreContext) -> Scored:
        value = answer_average_precision(context.answer, sample, self.thresholds)
        detail = {"truths": float(len(sample.truth.boxes)), "items": float(context.answer.num_items)}
        return Scored(value, detail)


@register("reward/term", "ap")
@dataclass(kw_only=True, slots=True)
class ApConfig(TermConfig):
    """AP@[.50:.05:.95] unless `thresholds` says otherwise."""

    thresholds: list[float] = field(default_factory=lambda: list(COCO_THRESHOLDS))

    def __post_init__(self) -> None:
        TermConfig.__post_init__(self)
        check_thresholds(self.thresholds)

    def build(self) -> AveragePrecision:
        return AveragePrecision(thresholds=tuple(self.thresholds))


@register("reward/term", "ap50")
@dataclass(kw_only=True, slots=True)
class Ap50Config(ApConfig):
    """AP@.50."""

    thresholds: list[float] = field(default_factory=lambda: [0.5])
