"""IoU of the answered box with the true one (VLM-R1, section 3.2, "accuracy reward for REC").

Deviations of `paper` from the released code, all of which `released_code` takes back: decimals and negative
numbers are read; the box is clipped to the image; there is no minimum overlap of more than one pixel each
way; a completion with several answer blocks is not read, where the released code reads the first; an answer
with several boxes earns 0 instead of the IoU of its first list of four unsigned integers.
"""

from __future__ import annotations

from dataclasses import dataclass

from groundrl.config.registry import register
from groundrl.errors import ConfigError
from groundrl.geometry.boxes import as_array, iou
from groundrl.parsing.answer import Answer
from groundrl.parsing.tags import ANSWER
from groundrl.rewards.base import Compat, ScoreContext, TermConfig
from groundrl.rewards.released import first_block, integer_box, placed, released_iou
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


def released_answer_iou(rollout: Rollout, truth: Truth) -> float:
    """The same by the released code, in [0, 1]: the first box of the first answer block, on image 0."""
    body = first_block(rollout.text, ANSWER)
    found = integer_box(body) if body is not None else None
    xyxy = placed(found[0], rollout) if found else None
    true = [box.xyxy for box in truth.boxes if box.image == 0]
    if xyxy is None or not true:
        return 0.0
    return float(released_iou(as_array([xyxy]), as_array(true)).max())


@dataclass(frozen=True, slots=True, kw_only=True)
class Iou:
    """The IoU itself, or 1 where it is strictly greater than `binary_at` and 0 elsewhere."""

    tasks = frozenset({Task.rec})
    needs = ()

    binary_at: float | None = None
    compat: Compat = Compat.paper

    def score(self, rollout: Rollout, sample: Sample, context: ScoreContext) -> Scored:
        if self.compat is Compat.released_code:
            value = released_answer_iou(rollout, sample.truth)
        else:
            value = answer_iou(context.answer, sample.truth)
        reward = value if self.binary_at is None else float(value > self.binary_at)
        return Scored(reward, {"iou": value})


@register("reward/term", "iou")
@dataclass(kw_only=True, slots=True)
class IouConfig(TermConfig):
    """`binary_at`: None pays the IoU; a number pays 1 above it and 0 otherwise. `compat`: whose reading."""

    binary_at: float | None = None
    compat: Compat = Compat.paper

    def __post_init__(self) -> None:
        TermConfig.__post_init__(self)
        if self.binary_at is not None and not 0 <= self.binary_at < 1:
            raise ConfigError("binary_at", "must be in [0, 1) or null", got=self.binary_at, todo="e.g. 0.5")

    def build(self) -> Iou:
        return Iou(binary_at=self.binary_at, compat=self.compat)
