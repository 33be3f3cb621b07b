"""The options of a multiple-choice question: lettered lines for the prompt, and the letter that is right."""

from __future__ import annotations

import re
from typing import Any

from groundrl.data.records import Record
from groundrl.geometry.labels import normalise_label

LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
_LETTERED = re.compile(r"\s*[(\[]?([A-Z])(?:[)\]][.:]?|[.:])(?=\s|$)\s*")


def read_options(record: Record, value: Any) -> tuple[str, ...]:
    """The texts of the options, without letters that they begin with; empty where there are none.

    Options are a list of texts or numbers, or an object with the letters A, B, ... as keys. Raises DataError
    for other values, for one option, and for two that are the same.
    """
    if value is None or value == [] or value == {}:
        return ()
    if isinstance(value, dict):
        if list(value) != list(LETTERS[: len(value)]):
            raise record.error(
                f"options have the keys {', '.join(map(str, value))}", "use A, B, ... in order"
            )
        value = list(value.values())
    if not isinstance(value, (list, tuple)) or not all(
        isinstance(one, (str, int, float)) and not isinstance(one, bool) for one in value
    ):
        raise record.error("options are no list of texts", 'write ["cat", "dog"]')
    texts = [str(one).strip() for one in value]
    if not 2 <= len(texts) <= len(LETTERS):
        raise record.error(f"{len(texts)} options, expected 2 to {len(LETTERS)}", "correct them")
    found = [_LETTERED.match(text) for text in texts]
    if all(match and match[1] == letter for match, letter in zip(found, LETTERS, strict=False)):
        texts = [text[match.end() :] for text, match in zip(texts, found, strict=True) if match]
    named = [normalise_label(text) for text in texts]
    if len(set(named)) < len(named) and any(named):
        raise record.error("two options are the same", "correct them")
    return tuple(texts)


def write_options(options: tuple[str, ...]) -> str:
    """One line an option: "A. cat". An option that is only its letter stays so."""
    lines = zip(LETTERS, options, strict=False)
    return "\n".join(letter if text in ("", letter) else f"{letter}. {text}" for letter, text in lines)


def right_letter(record: Record, options: tuple[str, ...], answer: str) -> str:
    """The letter of the true option, given as a letter or as the option's text.

    Raises DataError where it is neither, and where the two readings name different options.
    """
    known = LETTERS[: len(options)]
    bare = answer.strip().strip("()[]. ").upper()
    by_letter = bare if len(bare) == 1 and bare in known else None
    text = normalise_label(answer)
    by_text = [
        letter for letter, option in zip(known, options, strict=True) if normalise_label(option) == text
    ]
    if by_letter and by_text and by_text[0] != by_letter:
        raise record.error(
            f"the answer {answer!r} is the letter {by_letter} and the text of {by_text[0]}",
            "write the options' letters into them, or rename the options",
        )
    if not by_letter and not by_text:
        raise record.error(
            f"the answer {answer[:80]!r} is no option", f"give one of {', '.join(known)}, or an option's text"
        )
    return by_letter or by_text[0]
