"""IoU of the answered box with the true one (VLM-R1, section 3.2, "accuracy reward for REC").

Deviations from the released code: decimals and negative numbers are read, there is no minimum overlap of one
pixel, and an answer with several boxes earns 0 instead of the IoU of its first box.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from groundrl.config.registry import register
from groundrl.errors import ConfigError
from groundrl.geometry.boxes import iou
from groundrl.parsing.answer import Answer
from groundrl.rewards.base import ScoreContext, TermConfig
from groundrl.types import Rollout, Sample, Scored, Task, Truth


def answer_iou(answer: Answer, truth: Truth) -> float:
    """IoU of the answer's one box with the true box, in [0, 1]; 0 without a box.

    Where the truth holds several boxes (the expression fits each of them), the best one counts. Boxes on
    different images have IoU 0. Reward and evaluation both call this.
    """
    return max(
        (
            iou(box.xyxy, true.xyxy)
            for box in answer.boxes[:1]
            for true in truth.boxes
            if box.image == true.image
        ),
        default=0.0,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Iou:
    """The IoU itself, or 1 where it is strictly greater than `binary_at` and 0 elsewhere."""

    tasks: ClassVar[frozenset[Task]] = frozenset({Task.rec})
    needs: ClassVar[tuple[str, ...]] = ()

    binary_at: float | None = None

    def score(self, rollout: Rollout, sample: Sample, context: ScoreContext) -> Scored:
        value = answer_iou(context.answer, sample.truth)
        reward = value if self.binary_at is None else float(value > self.binary_at)
        return Scored(reward, {"iou": value})


@register("reward/term", "iou")
@dataclass(kw_only=True, slots=True)
class IouConfig(TermConfig):
    """`binary_at`: None pays the IoU; a number pays 1 above it and 0 otherwise."""

    binary_at: float | None = None

    def __post_init__(self) -> None:
        TermConfig.__post_init__(self)
        if self.binary_at is not None and not 0 <= self.binary_at < 1:
            raise ConfigError("binary_at", "must be in [0, 1) or null", got=self.binary_at, todo="e.g. 0.5")

    def build(self) -> Iou:
        return Iou(binary_at=self.binary_at)
