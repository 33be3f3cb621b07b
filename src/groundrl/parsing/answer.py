"""`Answer`: what a rollout said, read once and shared by every reward and every metric.

Declared policies, the same in training and evaluation:
* one think pair, then one answer pair; repeated or nested tags lose the answer (`tags.py`)
* of several fences in an answer the last is read; bare JSON is read too (`fences.py`)
* referring expressions ask for one box. An answer with several items, valid or not, has status
  `several_boxes` and no box: taking the first, the last or the best would pay for guessing.
* a truncated answer is not repaired; a complete answer pair before the cut is read as usual
* boxes are converted to original pixels with the size the image really had, then clipped
"""

from __future__ import annotations

from dataclasses import dataclass

from groundrl.geometry.frames import clip, to_original
from groundrl.parsing.boxes import ModelBox, read_items
from groundrl.parsing.fences import find_payload
from groundrl.parsing.status import ParseStatus, RejectReason
from groundrl.parsing.tags import scan_tags
from groundrl.types import LabeledBox, Rollout, RolloutStatus, Sample, Task

__all__ = ["Answer", "ModelAnswer", "ParseStatus", "RejectReason", "parse_answer", "parse_rollout"]

BOX_TASKS = frozenset({Task.rec, Task.ovd})


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelAnswer:
    """An answer before its boxes are mapped: `boxes` are in the model's coordinate space."""

    status: ParseStatus
    think: str | None = None
    body: str | None = None
    boxes: tuple[ModelBox, ...] = ()
    rejected: tuple[str, ...] = ()
    strict: bool = False
    fenced: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """A parsed rollout.

    think     the text inside the think tags, stripped; None without a proper pair
    body      the text inside the answer tags, stripped; None when it could not or must not be read
    boxes     the valid boxes in the order of writing, in pixels of the original image, clipped to it
    rejected  a `RejectReason` value per refused item
    clipped   how many of `boxes` reached beyond the image
    strict    exactly a think pair and an answer pair in order, with only whitespace around them
    fenced    the body is one closed json fence and nothing else
    """

    status: ParseStatus
    think: str | None = None
    body: str | None = None
    boxes: tuple[LabeledBox, ...] = ()
    rejected: tuple[str, ...] = ()
    clipped: int = 0
    strict: bool = False
    fenced: bool = False

    @property
    def num_items(self) -> int:
        """Everything the answer claims, refused items included: the |P| of length factors."""
        return len(self.boxes) + len(self.rejected)


def parse_answer(text: str, task: Task, *, truncated: bool) -> ModelAnswer:
    """Read a completion without knowing the image.

    text       the completion only, special tokens dropped
    truncated  the completion hit the length limit

    For tasks without boxes `body` is the answer. Never raises, whatever the text; time and memory are linear
    in its length.
    """
    tags = scan_tags(text)
    if tags.answer is None:
        status = tags.problem or ParseStatus.NO_ANSWER_TAG
        if truncated and status is ParseStatus.NO_ANSWER_TAG:
            status = ParseStatus.TRUNCATED
        return ModelAnswer(status=status, think=tags.think)
    if task not in BOX_TASKS:
        status = ParseStatus.OK if tags.answer else ParseStatus.EMPTY
        return ModelAnswer(status=status, think=tags.think, body=tags.answer, strict=tags.strict)
    payload = find_payload(tags.answer)
    scan = read_items(payload.text, label_required=task is Task.ovd)
    status, boxes, rejected = scan.status, scan.boxes, scan.rejected
    if task is Task.rec and len(boxes) + len(rejected) > 1:
        status = ParseStatus.SEVERAL_BOXES
        rejected = (*rejected, *(RejectReason.SEVERAL_BOXES for _ in boxes))
        boxes = ()
    return ModelAnswer(
        status=status,
        think=tags.think,
        body=tags.answer,
        boxes=boxes,
        rejected=rejected,
        strict=tags.strict,
        fenced=payload.fenced,
    )


def parse_rollout(rollout: Rollout, sample: Sample) -> Answer:
    """Read a rollout and map its boxes to original pixels. Never raises on what the model wrote."""
    truncated = rollout.status is RolloutStatus.TRUNCATED_LENGTH
    raw = parse_answer(rollout.text, sample.task, truncated=truncated)
    boxes: list[LabeledBox] = []
    rejected = list(raw.rejected)
    clipped = 0
    for box in raw.boxes:
        if box.image >= len(rollout.frames):
            rejected.append(RejectReason.BAD_IMAGE)
            continue
        frame = rollout.frames[box.image]
        mapped = to_original(box.xyxy, rollout.coordinate_space, frame)
        xyxy = clip(mapped, frame.original)
        if not (xyxy[0] < xyxy[2] and xyxy[1] < xyxy[3]):
            rejected.append(RejectReason.OUTSIDE_IMAGE)
            continue
        clipped += xyxy != mapped
        boxes.append(LabeledBox(xyxy=xyxy, label=box.label, image=box.image))
    status = raw.status
    if status is ParseStatus.OK and sample.task in BOX_TASKS and not boxes:
        status = ParseStatus.NO_BOX
    return Answer(
        status=status,
        think=raw.think,
        body=raw.body,
        boxes=tuple(boxes),
        rejected=tuple(rejected),
        clipped=clipped,
        strict=raw.strict,
        fenced=raw.fenced,
    )
