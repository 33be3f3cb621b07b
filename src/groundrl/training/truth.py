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
from groundrl.types import CoordinateSpace, ImageFrame, Missing, Sample


def truth_text(sample: Sample, frames: Sequence[ImageFrame], space: CoordinateSpace) -> str:
    """The sample's truth as a completion, boxes in the model's own space."""
    boxes = [
        box._replace(xyxy=from_original(box.xyxy, space, frames[box.image])) for box in sample.truth.boxes
    ]
    return write_answer(sample.task, boxes, sample.truth.answer, "")


def check_truth_is_paid(
    samples: Sequence[Sample],
    frames: Sequence[tuple[ImageFrame, ...]],
    space: CoordinateSpace,
    rubric: Rubric,
) -> None:
    """Raise UserError when writing the truth does not pay.

    That is when the truth of a sample has a term that cannot be computed, or earns no more in all than an
    unreadable answer, or when a term that should pay it does so on no sample (a format reward hides that).
    """
    unpaid: dict[str, str] = {}
    paid: set[str] = set()
    for sample, own in zip(samples, frames, strict=True):
        text = truth_text(sample, own, space)
        said = rubric.score(written_rollout(sample.id, text, own, space=space), sample)
        silent = rubric.score(written_rollout(sample.id, "?", own, space=space), sample)
        for name in rubric.paying(sample.task):
            term, nothing = said.terms[name], silent.terms[name]
            if isinstance(term, Missing):
                raise UserError(f"reward.terms.{name}: {term.reason}; correct the data")
            if not isinstance(nothing, Missing) and term.value <= nothing.value:
                unpaid.setdefault(name, _complaint(sample, text, term.value, nothing.value, space))
            else:
                paid.add(name)
        if said.total is not None and silent.total is not None and said.total <= silent.total:
            raise UserError(f"reward: {_complaint(sample, text, said.total, silent.total, space)}")
    for name, complaint in unpaid.items():
        if name not in paid:
            raise UserError(f"reward.terms.{name}: {complaint}")


def _complaint(sample: Sample, text: str, value: float, silent: float, space: CoordinateSpace) -> str:
    return (
        f"the truth of sample {sample.id}, written as {text!r}, earns {value:.3g}, no more than an "
        f"unreadable answer ({silent:.3g}); check the reward's task, the prompt's format and the coordinate "
        f"space ({space})"
    )
