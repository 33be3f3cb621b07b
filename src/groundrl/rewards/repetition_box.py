"""Penalty for boxes that repeat an earlier one, exactly or nearly.

    r = -duplicates / |P|, in [-1, 0]

A box is a duplicate if an earlier box of the same normalised label and image overlaps it with an IoU above
`iou_above`. |P| counts every claimed item, refused ones included; r = 0 without items. Our definition: the
repetition reward of VLM-R1's released code compares the written box and label, so a shift by one pixel evades
it. A box of w pixels that is shifted by s along that side keeps an IoU of (w - s) / (w + s): at 0.9 one pixel
is seen through from a side of 20 pixels on.
"""

from __future__ import annotations

from dataclasses import dataclass

from groundrl.config.registry import register
from groundrl.errors import ConfigError
from groundrl.rewards.base import ScoreContext, TermConfig
from groundrl.rewards.detection import count_duplicates
from groundrl.types import Rollout, Sample, Scored, Task


@dataclass(frozen=True, slots=True, kw_only=True)
class RepetitionBox:
    """See the module; detail: `duplicates` and claimed `items`."""

    tasks = frozenset({Task.ovd})
    needs = ()
    pays_truth = False

    iou_above: float = 0.9

    def score(self, rollout: Rollout, sample: Sample, context: ScoreContext) -> Scored:
        items = context.answer.num_items
        duplicates = count_duplicates(context.answer.boxes, iou_above=self.iou_above)
        value = -duplicates / items if duplicates else 0.0
        return Scored(value, {"duplicates": float(duplicates), "items": float(items)})


@register("reward/term", "repetition_box")
@dataclass(kw_only=True, slots=True)
class RepetitionBoxConfig(TermConfig):
    """`iou_above`: boxes that overlap more than this are the same box."""

    iou_above: float = 0.9

    def __post_init__(self) -> None:
        TermConfig.__post_init__(self)
        if not 0 <= self.iou_above < 1:
            raise ConfigError("iou_above", "must be in [0, 1)", got=self.iou_above, todo="use e.g. 0.9")

    def build(self) -> RepetitionBox:
        return RepetitionBox(iou_above=self.iou_above)
