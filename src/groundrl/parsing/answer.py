"""`Answer`: what a rollout said, read once and shared by every reward and every metric.

Declared policies, the same in training and evaluation:
* one think pair, then one answer pair; repeated or nested tags lose the answer (`tags.py`)
* of several fences in an answer the last is read; bare JSON is read too (`fences.py`)
* referring expressions ask for one box. An answer with several items, valid or not, has status
  `several_boxes` and no box: taking the first, the last or the best would pay for guessing.
* a truncated or broken answer is not repaired, unless `parsing.salvage` keeps its complete leading items; a
  complete answer pair before the cut is read as usual
* boxes are converted to original pixels with the size the image really had, then clipped; a point outside
  the image is refused, one on its far edge belongs to the last pixel
* questions with one right letter, word or number are read by `final.py`
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from groundrl.geometry.frames import clip, point_to_original, to_original
from groundrl.parsing.boxes import ItemScan, ModelBox, ModelPoint, read_boxes, read_points
from groundrl.parsing.config import ParsingConfig
from groundrl.parsing.fences import find_payload
from groundrl.parsing.final import read_final
from groundrl.parsing.status import ParseStatus, RejectReason
from groundrl.parsing.tags import TagScan, scan_tags
from groundrl.types import LabeledBox, LabeledPoint, Rollout, RolloutStatus, Sample, Task

__all__ = ["Answer", "ModelAnswer", "ParseStatus", "RejectReason", "parse_answer", "parse_rollout"]

LOCATING = frozenset({Task.rec, Task.ovd, Task.point})
_DEFAULT = ParsingConfig()


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelAnswer:
    """An answer before its boxes and points are mapped: they are in the model's coordinate space."""

    status: ParseStatus
    think: str | None = None
    body: str | None = None
    value: str | None = None
    items: tuple[ModelBox | ModelPoint, ...] = ()
    rejected: tuple[RejectReason, ...] = ()
    strict: bool = False
    fenced: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """A parsed rollout.

    think      the text inside the think tags, stripped; None without a proper pair
    body       the text inside the answer tags, stripped; None when it could not or must not be read
    value      tasks with a final answer: its canonical form (`final.py`), None when it could not be read
    boxes      the valid boxes in the order of writing, in pixels of the original image, clipped to it
    points     the valid points in the order of writing, in pixels of the original image
    rejected   a reason per refused item
    clipped    how many of `boxes` reached beyond the image
    strict     exactly a think pair and an answer pair in order, with only whitespace around them
    fenced     the body is one closed json fence and nothing else
    truncated  the completion hit the length limit, whatever could still be read of it
    """

    status: ParseStatus
    think: str | None = None
    body: str | None = None
    value: str | None = None
    boxes: tuple[LabeledBox, ...] = ()
    points: tuple[LabeledPoint, ...] = ()
    rejected: tuple[RejectReason, ...] = ()
    clipped: int = 0
    strict: bool = False
    fenced: bool = False
    truncated: bool = False

    @property
    def num_items(self) -> int:
        """Everything the answer claims, refused items included: the |P| of length factors."""
        return len(self.boxes) + len(self.points) + len(self.rejected)

    @property
    def readable(self) -> bool:
        """Whether the whole answer says something usable, or that nothing is there.

        One that was cut, and of which only the beginning was kept, does not.
        """
        if self.status is ParseStatus.ITEM_REJECTED:
            return bool(self.boxes or self.points)
        return self.status in (ParseStatus.OK, ParseStatus.NONE)


def parse_answer(text: str, task: Task, *, truncated: bool, parsing: ParsingConfig = _DEFAULT) -> ModelAnswer:
    """Read a completion without knowing the image.

    text       the completion only, special tokens dropped
    truncated  the completion hit the length limit

    Never raises, whatever the text; time and memory are linear in its length.
    """
    tags = scan_tags(text)
    if tags.answer is None:
        return _unanswered(tags, task, truncated=truncated, parsing=parsing)
    if task not in LOCATING:
        final = read_final(tags.answer, task)
        return ModelAnswer(
            status=final.status, think=tags.think, body=tags.answer, value=final.value, strict=tags.strict
        )
    payload = find_payload(tags.answer)
    scan = _scan(payload.text, task, salvage=parsing.salvage)
    status, items, rejected = _one_box(scan) if task is Task.rec else (scan.status, scan.items, scan.rejected)
    return ModelAnswer(
        status=status,
        think=tags.think,
        body=tags.answer,
        items=items,
        rejected=rejected,
        strict=tags.strict,
        fenced=payload.fenced,
    )


def parse_rollout(rollout: Rollout, sample: Sample, parsing: ParsingConfig = _DEFAULT) -> Answer:
    """Read a rollout and map what it locates to original pixels. Never raises on what the model wrote."""
    truncated = rollout.status is RolloutStatus.TRUNCATED_LENGTH
    raw = parse_answer(rollout.text, sample.task, truncated=truncated, parsing=parsing)
    boxes: list[LabeledBox] = []
    points: list[LabeledPoint] = []
    rejected = list(raw.rejected)
    clipped = 0
    for item in raw.items:
        placed = _placed(item, rollout)
        if isinstance(placed, RejectReason):
            rejected.append(placed)
        elif isinstance(placed, LabeledPoint):
            points.append(placed)
        else:
            box, moved = placed
            boxes.append(box)
            clipped += moved
    status = raw.status
    if len(rejected) > len(raw.rejected) and status is ParseStatus.OK:
        status = ParseStatus.ITEM_REJECTED
    return Answer(
        status=status,
        think=raw.think,
        body=raw.body,
        value=raw.value,
        boxes=tuple(boxes),
        points=tuple(points),
        rejected=tuple(rejected),
        clipped=clipped,
        strict=raw.strict,
        fenced=raw.fenced,
        truncated=truncated,
    )


def _scan(payload: str, task: Task, *, salvage: bool) -> ItemScan[ModelBox] | ItemScan[ModelPoint]:
    if task is Task.point:
        return read_points(payload, salvage=salvage)
    return read_boxes(payload, label_required=task is Task.ovd, salvage=salvage)


def _unanswered(tags: TagScan, task: Task, *, truncated: bool, parsing: ParsingConfig) -> ModelAnswer:
    """No complete answer pair: why, and what may be kept of one that was cut."""
    status = tags.problem or ParseStatus.NO_ANSWER_TAG
    if not truncated or status is not ParseStatus.NO_ANSWER_TAG:
        return ModelAnswer(status=status, think=tags.think)
    if parsing.salvage and tags.open and task in LOCATING:
        scan = _scan(find_payload(tags.open).text, task, salvage=True)
        _, items, rejected = _one_box(scan) if task is Task.rec else (scan.status, scan.items, scan.rejected)
        if items:
            return ModelAnswer(
                status=ParseStatus.SALVAGED,
                think=tags.think,
                body=tags.open,
                items=items,
                rejected=rejected,
            )
    return ModelAnswer(status=ParseStatus.TRUNCATED, think=tags.think)


def _one_box(
    scan: ItemScan[ModelBox] | ItemScan[ModelPoint],
) -> tuple[ParseStatus, tuple[ModelBox | ModelPoint, ...], tuple[RejectReason, ...]]:
    """The policy for one box: several items, refused ones included, leave none."""
    if len(scan.items) + len(scan.rejected) <= 1:
        return scan.status, scan.items, scan.rejected
    several = (RejectReason.SEVERAL_BOXES,) * len(scan.items)
    return ParseStatus.SEVERAL_BOXES, (), (*scan.rejected, *several)


def _placed(
    item: ModelBox | ModelPoint, rollout: Rollout
) -> tuple[LabeledBox, bool] | LabeledPoint | RejectReason:
    """The item in original pixels; for a box also whether it was clipped."""
    if item.image >= len(rollout.frames):
        return RejectReason.BAD_IMAGE
    frame, space = rollout.frames[item.image], rollout.coordinate_space
    if isinstance(item, ModelPoint):
        x, y = point_to_original(item.xy, space, frame)
        width, height = frame.original
        if not (0 <= x <= width and 0 <= y <= height):
            return RejectReason.OUTSIDE_IMAGE
        inside = (min(x, math.nextafter(width, 0)), min(y, math.nextafter(height, 0)))
        return LabeledPoint(xy=inside, label=item.label, image=item.image)
    mapped = to_original(item.xyxy, space, frame)
    xyxy = clip(mapped, frame.original)
    if not (xyxy[0] < xyxy[2] and xyxy[1] < xyxy[3]):
        return RejectReason.OUTSIDE_IMAGE
    return LabeledBox(xyxy=xyxy, label=item.label, image=item.image), xyxy != mapped
