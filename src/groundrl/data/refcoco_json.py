"""Referring expressions as a JSON list of objects with an image, a sentence and a box.

Format: om-ai-lab/VLM-R1, src/eval/test_rec_r1.py (February 2025) reads `image`, `problem` and `solution`,
[x1, y1, x2, y2] in pixels, from the files of rec_jsons_processed.zip; later versions of its baseline script
read the bare expression from `normal_caption`. `bbox`, `file_name`, `sentence` and `sentences` are the names
of other conversions.

Assumed: `solution` counts before `bbox`, `image` before `file_name`, and the sentence is the first there is
of normal_caption, sentences, sentence and problem; width and height, where given, are those of the image; a
box may end up to one pixel outside it and is clipped.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import StrEnum
from pathlib import Path
from typing import Any, cast

from groundrl.data.records import Record, read_records
from groundrl.data.rows import Row
from groundrl.errors import DataError
from groundrl.types import XYXY, LabeledBox, Size, Task

IMAGES = ("image", "file_name")
TEXTS = ("normal_caption", "sentences", "sentence", "problem")
BOXES = ("solution", "bbox")
ROUNDING = 1.0
"""Pixels by which a box may end outside its image."""


class BoxOrder(StrEnum):
    """[x1, y1, x2, y2] or [x, y, width, height]."""

    xyxy = "xyxy"
    xywh = "xywh"


class ExpressionRecords:
    """The records of one file; DataError when most of its boxes are not in `order`, or not in pixels."""

    def __init__(self, file: Path, *, task: Task, order: BoxOrder, first_only: bool) -> None:
        self.file = file
        self.task = task
        self.order = order
        self.first_only = first_only
        self.records: list[Record] = list(read_records(file))
        self._check_boxes()

    def rows(self, item: object) -> Iterator[Row]:
        """One row for each sentence of a record. Raises DataError naming it."""
        record = cast("Record", item)
        fields = record.fields()
        image = _first(fields, IMAGES)
        if not isinstance(image, str) or not image.strip():
            raise record.error("has no path of an image", f"give {' or '.join(IMAGES)}")
        box = _corners(fields, self.order)
        if box is None:
            got = _first(fields, BOXES)
            raise record.error(f"box {got!r} is no {self.order} box in its image", _wanted(self.order))
        texts = _texts(_first(fields, TEXTS))
        if not texts:
            raise record.error("has no sentence", f"give one of {', '.join(TEXTS)}")
        name = record.name(None)
        for place, text in enumerate(texts[:1] if self.first_only else texts):
            yield Row(
                number=record.number,
                id=f"{name}:{place}",
                task=self.task,
                images=(image,),
                question=text,
                boxes=(LabeledBox(xyxy=box),),
                key=image,
            )

    def _check_boxes(self) -> None:
        total = wrong = relative = 0
        for record in self.records:
            if not isinstance(record.value, dict):
                continue
            fields = cast("dict[str, Any]", record.value)
            numbers = _numbers(_first(fields, BOXES))
            if numbers is not None:
                total += 1
                wrong += _corners(fields, self.order) is None
                relative += max(numbers) <= 1
        if 2 * wrong > total:
            other = next(order for order in BoxOrder if order is not self.order)
            raise DataError(
                self.file,
                f"{wrong} of {total} boxes are no {self.order} boxes in their image",
                todo=f"the order may be wrong: is it {other} (dataset.box_order)?",
            )
        if 2 * relative > total:
            problem = f"{relative} of {total} boxes lie within [0, 1]: shares of the image, not pixels"
            raise DataError(self.file, problem, todo="convert them to pixels of the original image")


def _wanted(order: BoxOrder) -> str:
    if order is BoxOrder.xyxy:
        return "write [x1, y1, x2, y2] with x1 < x2 and y1 < y2, in pixels"
    return "write [x, y, width, height] with width, height > 0, in pixels"


def _first(fields: Mapping[str, Any], names: tuple[str, ...]) -> object:
    return next((fields[name] for name in names if fields.get(name) is not None), None)


def _texts(value: object) -> list[str]:
    """The sentences of a text or a list of texts or of objects with `sent`; empty where one is no text."""
    listed: list[Any] = value if isinstance(value, list) else [value]
    texts = [one.get("sent") if isinstance(one, dict) else one for one in listed]
    written = [text.strip() for text in texts if isinstance(text, str) and text.strip()]
    return written if len(written) == len(listed) else []


def _numbers(value: object) -> tuple[float, float, float, float] | None:
    """Four finite numbers of a size that pixels have, or None."""
    if not isinstance(value, list) or len(value) != 4:
        return None
    if not all(isinstance(v, (int, float)) and not isinstance(v, bool) and -1e9 < v < 1e9 for v in value):
        return None
    return float(value[0]), float(value[1]), float(value[2]), float(value[3])


def _size(fields: Mapping[str, Any]) -> Size | None:
    width, height = fields.get("width"), fields.get("height")
    return (width, height) if type(width) is int and type(height) is int else None


def _corners(fields: Mapping[str, Any], order: BoxOrder) -> XYXY | None:
    """The box in corners, clipped by at most ROUNDING where the size is known; None where it is not one."""
    numbers = _numbers(_first(fields, BOXES))
    if numbers is None:
        return None
    x1, y1, x2, y2 = numbers
    if order is BoxOrder.xywh:
        if min(x2, y2) <= 0:
            return None
        x2, y2 = x1 + x2, y1 + y2
    size = _size(fields)
    if size is not None:
        if min(x1, y1) < -ROUNDING or x2 > size[0] + ROUNDING or y2 > size[1] + ROUNDING:
            return None
        x1, y1, x2, y2 = max(x1, 0.0), max(y1, 0.0), min(x2, float(size[0])), min(y2, float(size[1]))
    return (x1, y1, x2, y2) if 0 <= x1 < x2 and 0 <= y1 < y2 else None
