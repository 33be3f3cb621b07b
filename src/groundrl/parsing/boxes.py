"""The payload of a box answer: JSON to items, each accepted or refused with a reason.

Accepted shapes: an object `{"bbox_2d": [x1, y1, x2, y2], "label": "..."}`, a list of such objects, and a
bare list of coordinates (one box without a label) or a list of those. An object may name the image it
means, counted from 0, as `"image"`. Numbers may be integers, decimals, negative, or numeric strings. There
is no repair of broken JSON. One bad item does not spoil the others.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from typing import cast

from groundrl.parsing.status import ParseStatus, RejectReason
from groundrl.types import XYXY

MAX_DEPTH = 32
MAX_NUMBER_CHARS = 64
MAX_LABEL_CHARS = 1000
_NUMBER_CHARS = frozenset("0123456789+-.eE")


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelBox:
    """A valid box as the model wrote it, in the model's coordinate space."""

    xyxy: XYXY
    label: str
    image: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ItemScan:
    """The valid boxes in order, a reason for each refused item, and how the payload as a whole was read."""

    status: ParseStatus
    boxes: tuple[ModelBox, ...] = ()
    rejected: tuple[str, ...] = ()


def is_none(payload: str) -> bool:
    """Whether a payload says that nothing is there.

    That is the word "none" in any case with at most one full stop, or an empty list. Prose is not, nor is
    null, nor malformed JSON.
    """
    text = payload.strip()
    if len(text) > 2 and text[0] == "[" and text[-1] == "]":
        return not text[1:-1].strip(" \t\r\n")
    return text == "[]" or text.lower() in ("none", "none.")


def _too_deep(text: str) -> bool:
    """Linear check that brackets outside strings nest at most `MAX_DEPTH` deep."""
    depth, in_string, escaped = 0, False, False
    for char in text:
        if in_string:
            if escaped:
                escaped = False
            elif char == "\\":
                escaped = True
            elif char == '"':
                in_string = False
        elif char == '"':
            in_string = True
        elif char in "[{":
            depth += 1
            if depth > MAX_DEPTH:
                return True
        elif char in "]}":
            depth -= 1
    return False


def _json_number(text: str) -> float:
    """JSON number to float; nan for one too long to mean a coordinate (also past Python's digit limit)."""
    return float(text) if len(text) <= MAX_NUMBER_CHARS else math.nan


def _number(value: object) -> float | RejectReason:
    if isinstance(value, str):
        text = value.strip()
        if not text or not _NUMBER_CHARS.issuperset(text):
            return RejectReason.NOT_A_NUMBER
        try:
            value = _json_number(text)
        except ValueError:
            return RejectReason.NOT_A_NUMBER
    if not isinstance(value, float):
        return RejectReason.NOT_A_NUMBER
    return value if math.isfinite(value) else RejectReason.BAD_NUMBER


def _box(value: list[object]) -> XYXY | RejectReason:
    if len(value) != 4:
        return RejectReason.WRONG_COUNT
    numbers: list[float] = []
    for entry in value:
        number = _number(entry)
        if isinstance(number, RejectReason):
            return number
        numbers.append(number)
    x1, y1, x2, y2 = numbers
    if x1 > x2 or y1 > y2:
        return RejectReason.SWAPPED_CORNERS
    if x1 == x2 or y1 == y2:
        return RejectReason.ZERO_AREA
    return (x1, y1, x2, y2)


def _label(value: object, *, required: bool) -> str | RejectReason:
    text = value.strip() if isinstance(value, str) else ""
    if not text and required:
        return RejectReason.NO_LABEL
    if len(text) > MAX_LABEL_CHARS:  # Unicode normalisation is quadratic in runs of combining marks
        return RejectReason.LONG_LABEL
    return text.encode("utf-8", "replace").decode("utf-8")  # lone surrogates cannot be stored


def _image(value: object) -> int | RejectReason:
    if isinstance(value, float) and value >= 0 and value.is_integer():
        return int(value)
    return RejectReason.BAD_IMAGE


def _item(value: object, *, label_required: bool) -> ModelBox | RejectReason:
    fields: dict[str, object]
    if isinstance(value, list):
        fields = {"bbox_2d": value}
    elif isinstance(value, dict):
        fields = cast("dict[str, object]", value)
    else:
        return RejectReason.NOT_AN_ITEM
    raw = fields.get("bbox_2d")
    if not isinstance(raw, list):
        return RejectReason.MISSING_BOX
    xyxy = _box(cast("list[object]", raw))
    if isinstance(xyxy, RejectReason):
        return xyxy
    label = _label(fields.get("label"), required=label_required)
    if isinstance(label, RejectReason):
        return label
    image = _image(fields.get("image", 0.0))
    if isinstance(image, RejectReason):
        return image
    return ModelBox(xyxy=xyxy, label=label, image=image)


def _is_bare_box(values: list[object]) -> bool:
    return all(_number(value) is not RejectReason.NOT_A_NUMBER for value in values)


def read_items(payload: str, *, label_required: bool) -> ItemScan:
    """Read a payload; `label_required` for detection, where a box without a label claims nothing.

    Never raises; time and memory are linear in the payload.
    """
    if not payload.strip():
        return ItemScan(status=ParseStatus.EMPTY)
    if is_none(payload):
        return ItemScan(status=ParseStatus.NONE)
    if _too_deep(payload):
        return ItemScan(status=ParseStatus.BAD_JSON)
    try:
        document: object = json.loads(
            payload, parse_int=_json_number, parse_float=_json_number, parse_constant=float
        )
    except json.JSONDecodeError:
        return ItemScan(status=ParseStatus.BAD_JSON)
    if isinstance(document, dict):
        values: list[object] = [document]
    elif isinstance(document, list):
        values = cast("list[object]", document)
        if _is_bare_box(values):
            values = [values]
    else:
        return ItemScan(status=ParseStatus.NO_BOX)
    items = [_item(value, label_required=label_required) for value in values]
    boxes = tuple(item for item in items if isinstance(item, ModelBox))
    rejected = tuple(item for item in items if isinstance(item, RejectReason))
    return ItemScan(status=ParseStatus.OK if boxes else ParseStatus.NO_BOX, boxes=boxes, rejected=rejected)
