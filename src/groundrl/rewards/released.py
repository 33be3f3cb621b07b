"""How the released reward functions of VLM-R1 read a completion (om-ai-lab/VLM-R1 at 90052f4).

Only for terms with `compat: released_code`, to compare with numbers that were trained on those functions.
Kept as they are: text around and between blocks, repeated tags, the last or the first of several fences, no
bare JSON, and a parse failure that reads as an empty list. Boxes are converted to original pixels with the
frame of the first image, as everywhere, and are not clipped.

Bounds of ours: a number of more than 64 characters is no usable coordinate. Nothing here raises, and all is
linear in the text.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import cast

import numpy as np

from groundrl.geometry.boxes import Float64, pairwise_iou
from groundrl.geometry.frames import to_original
from groundrl.parsing.payload import json_number
from groundrl.parsing.tags import ANSWER, THINK
from groundrl.types import XYXY, Rollout

JSON_FENCE = ("```json", "```")
ANY_FENCE = ("```", "```")


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleasedItem:
    """One entry of a list, in original pixels; `xyxy` and `label` are None where they cannot be used."""

    xyxy: XYXY | None = None
    label: object = None


_MALFORMED = ReleasedItem()


def blocks(text: str, marks: tuple[str, str]) -> Iterator[str]:
    """The texts between an opening mark and the next closing one, from left to right."""
    opening, closing = marks
    start = text.find(opening)
    while start >= 0:
        start += len(opening)
        stop = text.find(closing, start)
        if stop < 0:
            return
        yield text[start:stop]
        start = text.find(opening, stop + len(closing))


def first_block(text: str, marks: tuple[str, str]) -> str | None:
    """The first of `blocks`, or None."""
    return next(blocks(text, marks), None)


def last_block(text: str, marks: tuple[str, str]) -> str | None:
    """The last of `blocks`, or None."""
    found = deque(blocks(text, marks), maxlen=1)
    return found[0] if found else None


def load_json(text: str) -> object:
    """A JSON document, numbers as floats; None where it is not JSON."""
    try:
        return json.loads(text, parse_int=json_number, parse_float=json_number, parse_constant=float)
    except (json.JSONDecodeError, RecursionError):
        return None


def read_items(fenced: str | None, rollout: Rollout) -> tuple[ReleasedItem, ...]:
    """What iterating over the fenced document yields; nothing where there is no fence or no JSON.

    The keys of an object and the characters of a string are entries too, all of them malformed.
    """
    document = load_json(fenced) if fenced is not None else None
    if isinstance(document, list):
        return tuple(_item(value, rollout) for value in cast("list[object]", document))
    return (_MALFORMED,) * len(document) if isinstance(document, dict | str) else ()


def _item(value: object, rollout: Rollout) -> ReleasedItem:
    if not isinstance(value, dict):
        return _MALFORMED
    fields = cast("dict[str, object]", value)
    box = fields.get("bbox_2d")
    corners = [entry for entry in box if isinstance(entry, float)] if isinstance(box, list) else []
    xyxy = None
    if isinstance(box, list) and len(box) == len(corners) == 4:
        xyxy = placed((corners[0], corners[1], corners[2], corners[3]), rollout)
    return ReleasedItem(xyxy=xyxy, label=fields.get("label"))


def placed(xyxy: XYXY, rollout: Rollout) -> XYXY | None:
    """A box of the model's space in pixels of the first image, not clipped; None without an image."""
    if not rollout.frames:
        return None
    return to_original(xyxy, rollout.coordinate_space, rollout.frames[0])


def integer_box(text: str, start: int = 0) -> tuple[XYXY, int] | None:
    """The first bracketed list of exactly four unsigned integers from `start` on, and where it ends."""
    opening = text.find("[", start)
    while opening >= 0:
        following = text.find("[", opening + 1)
        closing = text.find("]", opening + 1, following if following >= 0 else len(text))
        if closing >= 0:
            first, *others = text[opening + 1 : closing].split(",")
            parts = [first, *(part.lstrip() for part in others)]
            if len(parts) == 4 and all(part.isdecimal() for part in parts):
                x1, y1, x2, y2 = map(json_number, parts)
                return (x1, y1, x2, y2), closing + 1
        opening = following
    return None


def released_iou(first: Float64, second: Float64) -> Float64:
    """IoU [N, M] of boxes [N, 4] and [M, 4] in pixels, 0 unless the overlap is more than 1 px both ways."""
    with np.errstate(all="ignore"):
        low = np.maximum(first[:, None, :2], second[None, :, :2])
        high = np.minimum(first[:, None, 2:], second[None, :, 2:])
        enough = (high - low > 1).all(axis=2)
    return np.where(enough, pairwise_iou(first, second), 0.0)


def matches_format(text: str, *, boxed: bool) -> bool:
    """The released format patterns.

    boxed      somewhere in the text: a think block, whitespace, and an answer block in which braces hold four
               bracketed integers (referring expressions)
    otherwise  the whole text, to its last character: a think block, whitespace, an answer block
    """
    body = _answer_start(text)
    if body is None:
        return False
    if not boxed:
        whole = text.startswith(THINK[0]) and text.endswith(ANSWER[1])
        return whole and body + len(ANSWER[1]) <= len(text)
    brace = text.find("{", body)
    box = integer_box(text, brace + 1) if brace >= 0 else None
    closing = text.find("}", box[1]) if box else -1
    return closing >= 0 and text.find(ANSWER[1], closing + 1) >= 0


def _answer_start(text: str) -> int | None:
    """Where the first answer begins whose tag follows the end of a think block, but for whitespace."""
    opening = text.find(THINK[0])
    close = text.find(THINK[1], opening + len(THINK[0])) if opening >= 0 else -1
    while close >= 0:
        stop = skip_space(text, close + len(THINK[1]))
        if text.startswith(ANSWER[0], stop):
            return stop + len(ANSWER[0])
        close = text.find(THINK[1], stop)
    return None


def skip_space(text: str, start: int) -> int:
    """The first position from `start` on that holds no whitespace."""
    while start < len(text) and text[start].isspace():
        start += 1
    return start
