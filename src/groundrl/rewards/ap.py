"""Average precision of one answer (VLM-R1, section 3.2, "accuracy reward for OVD", before the length factor).

COCO semantics on a single image: categories that the truth does not hold are not scored, copies written
after the true positives are nearly free, and the value depends on the order of emission. That is the
published reward and its known weakness (VLM-R1, section 4.3, reward hacking); `odlength` and the detection
metrics are the remedy.

Deviations of `paper` from the released code, all of which `released_code` takes back: labels are compared
normalised; a completion with several answer blocks is not read, where the released code reads the last; bare
JSON, a single object and numeric strings are read, where it reads a list in a json fence only; boxes are
clipped to the image; the truth "nothing there" is only met by a well-formed "None" or empty list, where it
also pays 1 for prose and for malformed JSON inside answer tags.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from groundrl.config.registry import register
from groundrl.errors import ConfigError
from groundrl.parsing.answer import Answer, ParseStatus
from groundrl.parsing.tags import ANSWER
from groundrl.rewards.base import Compat, ScoreContext, TermConfig
from groundrl.rewards.detection import COCO_THRESHOLDS
from groundrl.rewards.released import JSON_FENCE, last_block, read_items
from groundrl.rewards.scene_ap import scene_average_precision
from groundrl.types import LabeledBox, Rollout, Sample, Scored, Task


def answer_average_precision(answer: Answer, sample: Sample, thresholds: Sequence[float]) -> float:
    """Single-image AP in [0, 1]. Nothing true and nothing claimed: 1; exactly one of the two: 0."""
    if not sample.truth.boxes:
        return float(answer.status is ParseStatus.NONE)
    if not answer.boxes:
        return 0.0
    return scene_average_precision(answer.boxes, sample.truth.boxes, thresholds)


def released_average_precision(
    rollout: Rollout, sample: Sample, thresholds: Sequence[float]
) -> tuple[float, int]:
    """The same by the released code: AP in [0, 1], and the number of entries that were read.

    Labels are equal character by character; malformed entries are dropped. Nothing true and nothing read,
    for whatever reason, is 1 wherever there is an answer block.
    """
    answer = last_block(rollout.text, ANSWER)
    if answer is None:
        return 0.0, 0
    items = read_items(last_block(answer, JSON_FENCE), rollout)
    truths = sample.truth.boxes
    if not items or not truths:
        return float(not items and not truths), len(items)
    names: dict[str, str] = {}  # a label as its number, which no normalisation can change
    for box in truths:
        names.setdefault(box.label, str(len(names)))
    predictions = tuple(
        LabeledBox(xyxy=item.xyxy, label=names[item.label])
        for item in items
        if item.xyxy is not None and isinstance(item.label, str) and item.label in names
    )
    renamed = [box._replace(label=names[box.label]) for box in truths]
    return scene_average_precision(predictions, renamed, thresholds), len(items)


def check_thresholds(thresholds: Sequence[float]) -> None:
    """Raise ConfigError unless there is at least one IoU threshold and all are in (0, 1]."""
    if not thresholds or not all(0 < threshold <= 1 for threshold in thresholds):
        raise ConfigError(
            "thresholds", "must be IoU thresholds in (0, 1]", got=list(thresholds), todo="use e.g. [0.5]"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class AveragePrecision:
    """AP averaged over `thresholds`; detail: number of true boxes and of claimed items."""

    tasks = frozenset({Task.ovd})
    needs = ()

    thresholds: tuple[float, ...] = COCO_THRESHOLDS
    compat: Compat = Compat.paper

    def score(self, rollout: Rollout, sample: Sample, context: ScoreContext) -> Scored:
        if self.compat is Compat.released_code:
            value, items = released_average_precision(rollout, sample, self.thresholds)
        else:
            value = answer_average_precision(context.answer, sample, self.thresholds)
            items = context.answer.num_items
        return Scored(value, {"truths": float(len(sample.truth.boxes)), "items": float(items)})


@register("reward/term", "ap")
@dataclass(kw_only=True, slots=True)
class ApConfig(TermConfig):
    """AP@[.50:.05:.95] unless `thresholds` says otherwise; `compat`: whose reading of the answer."""

    thresholds: list[float] = field(default_factory=lambda: list(COCO_THRESHOLDS))
    compat: Compat = Compat.paper

    def __post_init__(self) -> None:
        TermConfig.__post_init__(self)
        check_thresholds(self.thresholds)

    def build(self) -> AveragePrecision:
        return AveragePrecision(thresholds=tuple(self.thresholds), compat=self.compat)


@register("reward/term", "ap50")
@dataclass(kw_only=True, slots=True)
class Ap50Config(ApConfig):
    """AP@.50."""

    thresholds: list[float] = field(default_factory=lambda: [0.5])
