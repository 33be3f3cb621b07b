"""The payload of an answer as JSON: what says that nothing is there, and what is too odd to be an answer.

Numbers may be integers, decimals, negative, or numeric strings. There is no repair of broken JSON; on demand
the complete leading items of a list that was cut are kept. Everything is linear in the text.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from typing import Any, NamedTuple, cast

from groundrl.parsing.status import ParseStatus, RejectReason

MAX_DEPTH = 32
MAX_NUMBER_CHARS = 64
MAX_LABEL_CHARS = 1000
_NUMBER_CHARS = frozenset("0123456789+-.eE")
_BRACKETS = {code: None for code in range(128)} | {91: "[", 93: "]", 123: "[", 125: "]"}


class Items(NamedTuple):
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


def _too_deep(text: str) -> bool:
    """Whether brackets outside strings nest more than `MAX_DEPTH` deep."""
    if text.count("[") + text.count("{") <= MAX_DEPTH:
        return False
    if "\\" not in text:  # then every other piece between quotes is outside strings
        brackets = "".join(text.split('"')[::2]).translate(_BRACKETS)
        for _ in range(MAX_DEPTH):  # each round takes away the innermost pairs
            if not brackets:
                return False
            brackets = brackets.replace("[]", "")
    return any(depth > MAX_DEPTH for _, depth in _depths(text))


def _last_item(text: str) -> int:
    """The end of the last complete item of the outermost list; 0: none."""
    last = before = 0
    for index, depth in _depths(text):
        if depth == 1 and depth < before:
            last = index + 1
        before = depth
    return last


def _depths(text: str) -> Iterator[tuple[int, int]]:
    """Index of each bracket outside strings, with the depth behind it."""
    depth, in_string, escaped = 0, False, False
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
            yield index, depth
        elif char in "]}":
            depth -= 1
            yield index, depth


def json_number(text: str) -> float:
    """JSON number to float; nan for one too long to mean a coordinate (also past Python's digit limit)."""
    return float(text) if len(text) <= MAX_NUMBER_CHARS else math.nan


_decode_usual = json.JSONDecoder(parse_float=json_number, parse_constant=float).decode
_decode_endless = json.JSONDecoder(
    parse_int=json_number, parse_float=json_number, parse_constant=float
).decode


def _decode(text: str) -> object:
    """The document. Raises JSONDecodeError and nothing else: integers past Python's digit limit are nan."""
    try:
        return _decode_usual(text)
    except json.JSONDecodeError:
        raise
    except ValueError:
        return _decode_endless(text)


def number(value: object) -> float | RejectReason:
    """A coordinate from a JSON number or a numeric string."""
    if type(value) is int:
        return float(value) if abs(value) < 10**MAX_NUMBER_CHARS else RejectReason.BAD_NUMBER
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


def numbers(value: list[Any], count: int) -> list[float] | RejectReason:
    """Exactly `count` finite coordinates, or why not."""
    if len(value) != count:
        return RejectReason.WRONG_COUNT
    found: list[float] = []
    for entry in value:
        one = number(entry)
        if type(one) is RejectReason:
            return one
        found.append(one)
    return found


def label(value: object, *, required: bool) -> str | RejectReason:
    """A label, stripped; empty where none is required and none is there."""
    text = value.strip() if isinstance(value, str) else ""
    if 0 < len(text) <= MAX_LABEL_CHARS and text.isascii():
        return text
    if not text and required:
        return RejectReason.NO_LABEL
    if len(text) > MAX_LABEL_CHARS:  # Unicode normalisation is quadratic in runs of combining marks
        return RejectReason.LONG_LABEL
    return text.encode("utf-8", "replace").decode("utf-8")  # lone surrogates cannot be stored


def image(value: object) -> int | RejectReason:
    """An image index, counted from 0."""
    found = number(value) if isinstance(value, (int, float)) else -1.0
    if isinstance(found, float) and found >= 0 and found.is_integer():
        return int(found)
    return RejectReason.BAD_IMAGE


def load_items(payload: str, *, salvage: bool) -> Items:
    """The items of a payload: those of a list, a single object, or a bare list of coordinates as one item.

    salvage  keep the complete leading items of a list that does not parse as it stands
    """
    if not payload.strip():
        return Items(status=ParseStatus.EMPTY)
    if is_none(payload):
        return Items(status=ParseStatus.NONE)
    if _too_deep(payload):
        return Items(status=ParseStatus.BAD_JSON)
    incomplete = False
    try:
        document = _decode(payload)
    except json.JSONDecodeError:
        last = _last_item(payload) if salvage and payload.lstrip()[0] == "[" else 0
        if not last:
            return Items(status=ParseStatus.BAD_JSON)
        try:
            document = _decode(payload[:last] + "]")
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
