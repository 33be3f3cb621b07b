"""Code fences: which part of an answer is its payload.

A fence mark is three backticks that open or close a line. A JSON string holds no raw line break, so a label
that contains a fence can not be taken for one.
"""

from __future__ import annotations

from typing import NamedTuple

MARK = "```"


class Payload(NamedTuple):
    """The text to read as JSON. `fenced`: it is the inside of a closed json fence that is all of the body."""

    text: str
    fenced: bool


def _marks(body: str) -> list[int]:
    if body.startswith(MARK) and body.endswith(MARK) and body.count(MARK) == 2:
        return [0, len(body) - len(MARK)]
    marks: list[int] = []
    start = 0
    while start <= len(body):
        end = body.find("\n", start)
        end = len(body) if end < 0 else end
        line = body[start:end]
        left = line.lstrip()
        if left.startswith(MARK):
            marks.append(end - len(left))
        right = line.rstrip()
        if right.endswith(MARK):
            last = start + len(right) - len(MARK)
            if not marks or last >= marks[-1] + len(MARK):
                marks.append(last)
        start = end + 1
    return marks


def find_payload(body: str) -> Payload:
    """The inside of the last fence, or the whole body when there is none.

    Of several fences the last is read, in reward and evaluation alike. A fence that is not closed reaches to
    the end of the body. A language word after the opening mark is dropped.
    """
    marks = _marks(body)
    if not marks:
        return Payload(text=body.strip(), fenced=False)
    opening = (len(marks) - 1) // 2 * 2
    closed = opening + 1 < len(marks)
    stop = marks[opening + 1] if closed else len(body)
    inside = body[marks[opening] + len(MARK) : stop]
    is_json = inside[:4].lower() == "json" and not inside[4:5].isalnum()
    if is_json:
        inside = inside[4:]
    else:
        word, separator, rest = inside.partition("\n")
        if separator and word.strip().isalnum():
            inside = rest
    alone = len(marks) == 2 and not body[: marks[0]].strip() and not body[stop + len(MARK) :].strip()
    return Payload(text=inside.strip(), fenced=closed and is_json and alone)
