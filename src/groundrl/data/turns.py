"""Chat turns with `<image>` marks, each image kept where its mark stands.

A mark is never replaced by a text and never moved: it becomes an `ImagePart` between the texts around it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from groundrl.data.records import Record
from groundrl.types import ImagePart, Message, TextPart

MARK = "<image>"
ROLES = {
    "system": "system",
    "human": "user",
    "user": "user",
    "gpt": "assistant",
    "assistant": "assistant",
}
"""Spellings of the three roles: of ShareGPT and LLaVA, and of chat templates."""

Turn = tuple[str, str]
"""(role, text)."""


def read_turns(record: Record, value: Any, role_key: str, text_key: str) -> list[Turn]:
    """The turns of a list of `{role_key: ..., text_key: ...}`: an optional system turn, then user and
    assistant in turn, the user first. Raises DataError for anything else.
    """
    if not isinstance(value, list) or not value:
        raise record.error("has no list of turns", f'write [{{"{role_key}": ..., "{text_key}": ...}}, ...]')
    turns: list[Turn] = []
    for place, turn in enumerate(value, start=1):
        given: Any = turn.get(role_key) if isinstance(turn, dict) else None
        role = ROLES.get(given) if isinstance(given, str) else None
        if role is None:
            raise record.error(f"turn {place} has the {role_key} {given!r}", f"use one of {', '.join(ROLES)}")
        text: Any = turn.get(text_key)
        if not isinstance(text, str) or not text.strip():
            raise record.error(f"turn {place} has no text", f"write it as `{text_key}`")
        expected = "user" if not turns or turns[-1][0] != "user" else "assistant"
        if role != expected and not (role == "system" and not turns):
            raise record.error(f"turn {place} is of {role}, expected {expected}", "let the roles alternate")
        turns.append((role, text))
    return turns


def place_images(record: Record, turns: Sequence[Turn], images: int) -> tuple[Message, ...]:
    """Messages in which the i-th mark stands for image i; texts stay as written.

    Raises DataError, naming both numbers, unless there are as many marks as images.
    """
    marks = sum(text.count(MARK) for _, text in turns)
    if marks != images:
        raise record.error(
            f"the prompt has {marks} {MARK} marks for {images} images", "write one mark per image, in place"
        )
    messages: list[Message] = []
    index = 0
    for role, text in turns:
        parts: list[TextPart | ImagePart] = []
        for position, piece in enumerate(text.split(MARK)):
            if position:
                parts.append(ImagePart(index))
                index += 1
            if piece:
                parts.append(TextPart(piece))
        messages.append(Message(role=role, parts=tuple(parts)))
    return tuple(messages)


def question_of(turns: Sequence[Turn]) -> str:
    """The text of the last user turn without its marks."""
    texts = [text for role, text in turns if role == "user"]
    return texts[-1].replace(MARK, "").strip() if texts else ""


def image_paths(record: Record, value: Any) -> tuple[str, ...]:
    """Paths from a string, a list of strings, or nothing. Raises DataError for other values."""
    if value is None:
        return ()
    paths: list[Any] = list(value) if isinstance(value, list) else [value]
    for path in paths:
        if not isinstance(path, str) or not path:
            raise record.error(f"image {path!r} is not a path", "write a path or a list of paths")
    return tuple(paths)
