"""The truth of a sample, read from the text of a perfect answer.

It is read by the parsers that read a policy's answer, so a truth that no policy could be paid for is refused
when the data is opened.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

from groundrl.data.records import Record
from groundrl.errors import DataError
from groundrl.parsing.answer import LOCATING, ParseStatus, RejectReason
from groundrl.parsing.boxes import read_boxes
from groundrl.parsing.fences import find_payload
from groundrl.parsing.final import read_final
from groundrl.parsing.tags import ANSWER, THINK, scan_tags
from groundrl.types import LabeledBox, Task

_ORDER = (RejectReason.SWAPPED_CORNERS, RejectReason.ZERO_AREA)


@dataclass(frozen=True, slots=True, kw_only=True)
class Solution:
    """Boxes in pixels of the original image for tasks that locate, else the answer's text."""

    boxes: tuple[LabeledBox, ...] = ()
    answer: str | None = None

    @property
    def labels(self) -> tuple[str, ...]:
        """The labels, each once, in order."""
        return tuple(dict.fromkeys(box.label for box in self.boxes))


class SolutionReader:
    """Reads solutions of one file and counts the boxes whose corners are in the wrong order."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self.items = 0
        self.disordered = 0

    def read(self, record: Record, task: Task, value: object, images: int) -> Solution:
        """The truth of `record`, whose prompt shows `images` images. Raises DataError."""
        body = answer_text(record, value)
        if task in LOCATING:
            return Solution(boxes=self._boxes(record, task, body, images))
        if read_final(body, task).value is None:
            raise record.error(
                f"the answer {body[:80]!r} cannot be read as {task}", "correct it, or the task"
            )
        return Solution(answer=body)

    def check_order(self) -> None:
        """Refuse a file most of whose boxes are not [x1, y1, x2, y2], also where bad rows are skipped."""
        if self.disordered * 2 > self.items:
            raise DataError(
                self.file,
                f"{self.disordered} of {self.items} boxes do not have x1 < x2 and y1 < y2",
                todo="the order may be wrong: [x1, y1, x2, y2] is expected, not [x, y, width, height]",
            )

    def _boxes(self, record: Record, task: Task, body: str, images: int) -> tuple[LabeledBox, ...]:
        scan = read_boxes(find_payload(body).text, label_required=task is Task.ovd)
        self.items += len(scan.items) + len(scan.rejected)
        self.disordered += sum(reason in _ORDER for reason in scan.rejected)
        if scan.rejected:
            raise record.error(
                f"a box of the solution is refused ({scan.rejected[0]})",
                "boxes are [x1, y1, x2, y2] with x1 < x2 and y1 < y2; detection needs labels",
            )
        empty = scan.status is ParseStatus.NONE or (scan.status is ParseStatus.OK and not scan.items)
        if scan.status is not ParseStatus.OK and not empty:
            raise record.error(
                f"the solution {body[:80]!r} holds no boxes ({scan.status})", "see docs/howto/data"
            )
        if empty and task is not Task.ovd:
            raise record.error(f"the solution holds no box, and {task} asks for one", "remove the row")
        for box in scan.items:
            if box.image >= images:
                raise record.error(f"a box is on image {box.image} of {images}", "images are counted from 0")
        return scan.items


def answer_text(record: Record, value: object) -> str:
    """The text of an answer from a string or number, its answer tags taken off, a think block dropped."""
    if isinstance(value, str):
        text = value
    elif type(value) is int or (isinstance(value, float) and math.isfinite(value)):
        text = str(value)
    else:
        raise record.error(f"the answer {value!r} is neither a text nor a finite number", "write a text")
    tags = scan_tags(text)
    body = text.strip() if tags.answer is None else tags.answer
    if any(tag in body for tag in (*THINK, *ANSWER)):
        raise record.error("the answer has tags that do not pair", f"write {ANSWER[0]}...{ANSWER[1]} once")
    if not body:
        raise record.error("the answer is empty", "write it, or remove the row")
    return body


def is_number(text: str) -> bool:
    """Whether a solution is nothing but a finite decimal number."""
    if not text.isascii() or "_" in text:
        return False
    try:
        return math.isfinite(float(text))
    except ValueError:
        return False
