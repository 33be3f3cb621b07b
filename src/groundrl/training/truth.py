"""The truth as the model would write it, and the check at start that writing it is paid.

A reward that does not pay the truth has a wrong coordinate space or an answer format that its parser
refuses; both otherwise look like a model that does not learn (VLM-R1 #44, verl #1109).
"""

from __future__ import annotations

from collections.abc import Sequence

from groundrl.errors import UserError
from groundrl.geometry.frames import from_original
from groundrl.prompting.answer import write_answer
from groundrl.rewards.rubric import Rubric
from groundrl.rollout.written import written_rollout
from groundrl.types import CoordinateSpace, ImageFrame, Sample


def truth_text(sample: Sample, frames: Sequence[ImageFrame], space: CoordinateSpace) -> str:
    """The sample's truth as a completion, boxes in the model's own space."""
    boxes = [(from_original(box.xyxy, space, frames[box.image]), box.label) for box in sample.truth.boxes]
    return write_answer(sample.task, boxes, sample.truth.answer, "")


def check_truth_is_paid(
    samples: Sequence[Sample],
    frames: Sequence[tuple[ImageFrame, ...]],
    space: CoordinateSpace,
    rubric: Rubric,
) -> None:
    """Raise UserError when the truth of a sample earns no more than an unreadable answer."""
    for sample, own in zip(samples, frames, strict=True):
        text = truth_text(sample, own, space)
        paid = rubric.score(written_rollout(sample.id, text, own, space=space), sample).total
        unpaid = rubric.score(written_rollout(sample.id, "?", own, space=space), sample).total
        if paid is not None and unpaid is not None and paid <= unpaid:
            raise UserError(
                f"reward: the truth of sample {sample.id}, written as {text!r}, earns {paid:.3g}, no more "
                f"than an unreadable answer ({unpaid:.3g}); check the reward's task, the prompt's format and "
                f"the coordinate space ({space})"
            )
