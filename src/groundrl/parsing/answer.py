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
from typing import cast

from groundrl.geometry.frames import clip, point_to_original, to_original
from groundrl.parsing.boxes import ItemScan, box_as_written, point_as_written, read_boxes, read_points
from groundrl.parsing.config import ParsingConfig
from groundrl.parsing.fences import find_payload
from groundrl.parsing.final import read_final
from groundrl.parsing.status import ParseStatus, RejectReason
from groundrl.parsing.tags import TagScan, scan_tags
from groundrl.types import (
    XYXY,
    CoordinateSpace,
    LabeledBox,
    LabeledPoint,
    Rollout,
    RolloutStatus,
    Sample,
    Task,
)

__all__ = ["Answer", "ParseStatus", "RejectReason", "parse_answer", "parse_rollout"]

LOCATING = frozenset({Task.rec, Task.ovd, Task.point})
_DEFAULT = ParsingConfig()


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


class _Places:
    """Where items stand in the original images of a rollout; counts the boxes that had to be clipped."""

    __slots__ = ("clipped", "converts", "frames", "space")

    def __init__(self, rollout: Rollout) -> None:
        self.frames = rollout.frames
        self.space = rollout.coordinate_space
        self.converts = self.space is not CoordinateSpace.PIXEL_ORIGINAL
        self.clipped = 0

    def box(self, xyxy: XYXY, label: str, image: int) -> LabeledBox | RejectReason:
        if image >= len(self.frames):
            return RejectReason.BAD_IMAGE
        frame = self.frames[image]
        if self.converts:
            xyxy = to_original(xyxy, self.space, frame)
        x1, y1, x2, y2 = xyxy
        width, height = frame.original
        if not (0 <= x1 < x2 <= width and 0 <= y1 < y2 <= height):
            xyxy = clip(xyxy, frame.original)
            if not (xyxy[0] < xyxy[2] and xyxy[1] < xyxy[3]):
                return RejectReason.OUTSIDE_IMAGE
            self.clipped += 1
        return LabeledBox(xyxy, label, image)

    def point(self, xy: tuple[float, float], label: str, image: int) -> LabeledPoint | RejectReason:
        if image >= len(self.frames):
            return RejectReason.BAD_IMAGE
        frame = self.frames[image]
        x, y = point_to_original(xy, self.space, frame)
        width, height = frame.original
        if not (0 <= x <= width and 0 <= y <= height):
            return RejectReason.OUTSIDE_IMAGE
        inside = (min(x, math.nextafter(width, 0)), min(y, math.nextafter(height, 0)))
        return LabeledPoint(inside, label, image)


def parse_answer(
    text: str,
    task: Task,
    *,
    truncated: bool,
    parsing: ParsingConfig = _DEFAULT,
    places: _Places | None = None,
) -> Answer:
    """Read a completion; without `places` its coordinates stay in the model's own space.

    text       the completion only, special tokens dropped
    truncated  the completion hit the length limit

    Never raises, whatever the text; time and memory are linear in its length.
    """
    tags = scan_tags(text)
    if tags.answer is None:
        return _unanswered(tags, task, truncated=truncated, parsing=parsing, places=places)
    if task not in LOCATING:
        final = read_final(tags.answer, task)
        return Answer(
            status=final.status,
            think=tags.think,
            body=tags.answer,
            value=final.value,
            strict=tags.strict,
            truncated=truncated,
        )
    payload = find_payload(tags.answer)
    scan = _scan(payload.text, task, salvage=parsing.salvage, places=places)
    return _located(
        scan, places, tags.think, tags.answer, strict=tags.strict, fenced=payload.fenced, truncated=truncated
    )


def parse_rollout(rollout: Rollout, sample: Sample, parsing: ParsingConfig = _DEFAULT) -> Answer:
    """Read a rollout, what it locates in original pixels. Never raises on what the model wrote."""
    truncated = rollout.status is RolloutStatus.TRUNCATED_LENGTH
    return parse_answer(
        rollout.text, sample.task, truncated=truncated, parsing=parsing, places=_Places(rollout)
    )


Scan = ItemScan[LabeledBox] | ItemScan[LabeledPoint]


def _scan(payload: str, task: Task, *, salvage: bool, places: _Places | None) -> Scan:
    """The items of a payload. Of several where one box is asked for none is left, refused ones counted."""
    if task is Task.point:
        return read_points(payload, salvage=salvage, make=places.point if places else point_as_written)
    scan = read_boxes(
        payload,
        label_required=task is Task.ovd,
        salvage=salvage,
        make=places.box if places else box_as_written,
    )
    if task is Task.rec and len(scan.items) + len(scan.rejected) > 1:
        several = (RejectReason.SEVERAL_BOXES,) * len(scan.items)
        return ItemScan(ParseStatus.SEVERAL_BOXES, (), (*scan.rejected, *several))
    return scan


def _located(
    scan: Scan,
    places: _Places | None,
    think: str | None,
    body: str,
    *,
    status: ParseStatus | None = None,
    strict: bool = False,
    fenced: bool = False,
    truncated: bool,
) -> Answer:
    boxes: tuple[LabeledBox, ...] = ()
    points: tuple[LabeledPoint, ...] = ()
    if scan.items and isinstance(scan.items[0], LabeledPoint):
        points = cast("tuple[LabeledPoint, ...]", scan.items)
    else:
        boxes = cast("tuple[LabeledBox, ...]", scan.items)
    return Answer(
        status=status or scan.status,
        think=think,
        body=body,
        boxes=boxes,
        points=points,
        rejected=scan.rejected,
        clipped=places.clipped if places and boxes else 0,
        strict=strict,
        fenced=fenced,
        truncated=truncated,
    )


def _unanswered(
    tags: TagScan, task: Task, *, truncated: bool, parsing: ParsingConfig, places: _Places | None
) -> Answer:
    """No complete answer pair: why, and what may be kept of one that was cut."""
    status = tags.problem or ParseStatus.NO_ANSWER_TAG
    if truncated and status is ParseStatus.NO_ANSWER_TAG:
        status = ParseStatus.TRUNCATED
        if parsing.salvage and tags.open and task in LOCATING:
            scan = _scan(find_payload(tags.open).text, task, salvage=True, places=places)
            if scan.items:
                kept = ParseStatus.SALVAGED
                return _located(scan, places, tags.think, tags.open, status=kept, truncated=truncated)
    return Answer(status=status, think=tags.think, truncated=truncated)
