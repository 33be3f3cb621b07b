"""The truth as the model would write it, and the check at start that writing it is paid.

A reward that does not pay the truth has a wrong coordinate space or an answer format that its parser
refuses; both otherwise look like a model that does not learn (VLM-R1 #44, verl #1109).
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

from groundrl.errors import UserError
from groundrl.geometry.frames import from_original, unit_of
from groundrl.learner.algorithms import ThinkBlock
from groundrl.prompting.answer import write_answer
from groundrl.prompting.lint import check_prompts
from groundrl.rewards.rubric import Rubric
from groundrl.rollout.collect import Collector
from groundrl.rollout.written import written_rollout
from groundrl.types import CoordinateSpace, ImageFrame, LabeledBox, Missing, Sample, Task

logger = logging.getLogger(__name__)


def truth_text(
    sample: Sample,
    frames: Sequence[ImageFrame],
    space: CoordinateSpace,
    think: ThinkBlock = ThinkBlock.empty,
) -> str:
    """The sample's truth as a completion, boxes in the model's own space."""
    boxes = [
        box._replace(xyxy=from_original(box.xyxy, space, frames[box.image])) for box in sample.truth.boxes
    ]
    return write_answer(sample.task, boxes, sample.truth.answer, _thought(sample, think))


def _thought(sample: Sample, think: ThinkBlock) -> str | None:
    """The text of the think block, None for no block."""
    if think is not ThinkBlock.template:
        return None if think is ThinkBlock.none else ""
    asked = ", ".join(sample.targets) or " ".join(sample.question.split())
    text = f"Asked for: {asked}."
    if sample.task is Task.ovd:
        seen = ", ".join(dict.fromkeys(box.label for box in sample.truth.boxes))
        text += f" In the image: {seen or 'none of them'}."
    return text.replace("<", "")  # a name cannot be taken for a tag


def check_samples(
    samples: Sequence[Sample], collector: Collector, rubric: Rubric, space: CoordinateSpace
) -> None:
    """What is looked at in the first samples of a data set before a run starts. Raises UserError.

    The prompt is linted (findings are logged), the truth must come back through the parser, and, where the
    rubric is about the task, must be paid.
    """
    for finding in check_prompts(collector.prompt, samples):
        logger.warning("prompt: %s", finding)
    frames = [tuple(image.frame for image in context.images) for context in collector.contexts(samples)]
    check_truth_comes_back(samples, frames, space, rubric)
    if all(rubric.scores(sample.task) for sample in samples):
        check_truth_is_paid(samples, frames, space, rubric)


def check_truth_comes_back(
    samples: Sequence[Sample],
    frames: Sequence[tuple[ImageFrame, ...]],
    space: CoordinateSpace,
    rubric: Rubric,
) -> None:
    """Raise UserError when a true box, written in the model's space and parsed, is more than one unit of that
    space from where it was. Boxes of less than two units may round to nothing and are left out."""
    for sample, own in zip(samples, frames, strict=True):
        text = truth_text(sample, own, space)
        answer = rubric.parse(written_rollout(sample.id, text, own, space=space), sample)
        said = {Task.rec: sample.truth.boxes[:1], Task.ovd: sample.truth.boxes}
        for box in said.get(sample.task, ()):
            unit = unit_of(space, own[box.image])
            sides = (box.xyxy[2] - box.xyxy[0]) / unit[0], (box.xyxy[3] - box.xyxy[1]) / unit[1]
            if min(sides) < 2 or any(_near(box, other, unit) for other in answer.boxes):
                continue
            raise UserError(
                f"sample {sample.id}: the true box {[round(v, 1) for v in box.xyxy]} ({box.label!r}) is lost "
                f"when the truth is written as {text!r} and parsed again (space {space}, image "
                f"{own[box.image].original} resized to {own[box.image].processed}): check the data's boxes "
                "and the coordinate space of the model family"
            )


def _near(box: LabeledBox, other: LabeledBox, unit: tuple[float, float]) -> bool:
    gaps = (abs(one - two) for one, two in zip(box.xyxy, other.xyxy, strict=True))
    same = box.image == other.image
    return same and all(gap <= unit[axis % 2] + 1e-6 for axis, gap in enumerate(gaps))


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
