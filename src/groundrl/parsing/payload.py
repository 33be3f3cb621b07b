"""The payload of an answer as JSON: what says that nothing is there, and what is too odd to be an answer.

Numbers may be integers, decimals, negative, or numeric strings. There is no repair of broken JSON; on demand
the complete leading items of a list that was cut are kept. Everything is linear in the text.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

from groundrl.parsing.status import ParseStatus, RejectReason

MAX_DEPTH = 32
MAX_NUMBER_CHARS = 64
MAX_LABEL_CHARS = 1000
_NUMBER_CHARS = frozenset("0123456789+-.eE")


@dataclass(frozen=True, slots=True, kw_only=True)
class Items:
    """The items of a payload as JSON values; `incomplete`: the list was cut, and its rest was dropped.

    `status` is OK where there are items to look at.
    """

    status: ParseStatus
    values: tuple[object, ...] = ()
    incomplete: bool = False


def is_none(payload: str) -> bool:
    """Whether a payload says that nothing is there: the one predicate of all rewards and metrics.

    That is the word "none" in any case with at most one full stop, or an empty list. Prose is not, nor is
    null, nor malformed JSON.
    """
    text = payload.strip()
    if len(text) > 2 and text[0] == "[" and text[-1] == "]":
        return not text[1:-1].strip(" \t\r\n")
    return text == "[]" or text.lower() in ("none", "none.")


def _shape(text: str) -> tuple[bool, int]:
    """Whether brackets outside strings nest more than `MAX_DEPTH` deep, and the end of the last complete item
    of the outermost list (0: none)."""
    depth, last, in_string, escaped = 0, 0, False, False
    for index, char in enumerate(text):
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
                return True, last
        elif char in "]}":
            depth -= 1
            if depth == 1:
                last = index + 1
    return False, last


def json_number(text: str) -> float:
    """JSON number to float; nan for one too long to mean a coordinate (also past Python's digit limit)."""
    return float(text) if len(text) <= MAX_NUMBER_CHARS else math.nan


def _loads(text: str) -> object:
    return json.loads(text, parse_int=json_number, parse_float=json_number, parse_constant=float)


def number(value: object) -> float | RejectReason:
    """A coordinate from a JSON number or a numeric string."""
    if isinstance(value, str):
        text = value.strip()
        if not text or not _NUMBER_CHARS.issuperset(text):
            return RejectReason.NOT_A_NUMBER
        try:
            value = json_number(text)
        except ValueError:
            return RejectReason.NOT_A_NUMBER
    if not isinstance(value, float):
        return RejectReason.NOT_A_NUMBER
    return value if math.isfinite(value) else RejectReason.BAD_NUMBER


def numbers(value: Sequence[object], count: int) -> list[float] | RejectReason:
    """Exactly `count` finite coordinates, or why not."""
    if len(value) != count:
        return RejectReason.WRONG_COUNT
    found: list[float] = []
    for entry in value:
        one = number(entry)
        if isinstance(one, RejectReason):
            return one
        found.append(one)
    return found


def label(value: object, *, required: bool) -> str | RejectReason:
    """A label, stripped; empty where none is required and none is there."""
    text = value.strip() if isinstance(value, str) else ""
    if not text and required:
        return RejectReason.NO_LABEL
    if len(text) > MAX_LABEL_CHARS:  # Unicode normalisation is quadratic in runs of combining marks
        return RejectReason.LONG_LABEL
    return text.encode("utf-8", "replace").decode("utf-8")  # lone surrogates cannot be stored


def image(value: object) -> int | RejectReason:
    """An image index, counted from 0."""
    if isinstance(value, float) and value >= 0 and value.is_integer():
        return int(value)
    return RejectReason.BAD_IMAGE


def load_items(payload: str, *, salvage: bool) -> Items:
    """The items of a payload: those of a list, a single object, or a bare list of coordinates as one item.

    salvage  keep the complete leading items of a list that does not parse as it stands
    """
    if not payload.strip():
        return Items(status=ParseStatus.EMPTY)
    if is_none(payload):
        return Items(status=ParseStatus.NONE)
    too_deep, last = _shape(payload)
    if too_deep:
        return Items(status=ParseStatus.BAD_JSON)
    incomplete = False
    try:
        document = _loads(payload)
    except json.JSONDecodeError:
        if not salvage or not last or payload.lstrip()[0] != "[":
            return Items(status=ParseStatus.BAD_JSON)
        try:
            document = _loads(payload[:last] + "]")
        except json.JSONDecodeError:
            return Items(status=ParseStatus.BAD_JSON)
        incomplete = True
    if isinstance(document, dict):
        return Items(status=ParseStatus.OK, values=(document,))
    if not isinstance(document, list):
        return Items(status=ParseStatus.NO_BOX)
    values = cast("list[object]", document)
    if all(number(value) is not RejectReason.NOT_A_NUMBER for value in values):
        values = [values]
    return Items(status=ParseStatus.OK, values=tuple(values), incomplete=incomplete)
