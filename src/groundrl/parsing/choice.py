"""The letter of a multiple-choice answer, or the text of an option.

Policy: a single letter, in either case, is a choice where it stands alone ("b", "(B)", "B."), is followed by
a delimiter ("B) cat", "B. cat", "B: cat", "B, since", "B - cat", a line break), or is introduced ("Option B",
"The answer is B", "B is correct"). A letter followed by a word is text: "A cat" names no option. Several
letters ("A or B", "A. cat B. dog") are unreadable. Everything else is the text of an option.
"""

from __future__ import annotations

import re

from groundrl.parsing.markup import unwrap
from groundrl.parsing.payload import MAX_LABEL_CHARS

_LEAD = re.compile(
    r"(?:(?:so|thus|hence|therefore),?\s+)?(?:the\s+)?(?:(?:correct|right|best|final)\s+)?"
    r"(?P<noun>answer|option|choice)\b(?P<link>\s+is\b|\s*[:=])?[\s:]*(?P<second>(?:option|choice)\s+)?",
    re.IGNORECASE,
)
_ALONE = re.compile(r"[(\[{]?([A-Za-z])[)\]}]?[\s.:,;!*_]*$")
_DELIMITED = re.compile(
    r"[(\[{]([A-Za-z])[)\]}]|([A-Za-z])(?:[)\]]|[.:,*_]+(?=\s)|[ \t]*\n)|([A-Z])\s+[-–—](?=\s)"
)
_VERDICT = re.compile(r"([A-Za-z])\s+is\s+(?:the\s+)?(?:correct|right|best|answer)\b")
_NAMED = re.compile(r"([A-Za-z])\b")
_OTHER = re.compile(
    r"[(\[]([A-Za-z])[)\]]|\b([A-Z])\)|(?<!\S)([A-Z])[.:](?=\s)"
    r"|(?:\bor\b|\band\b|[,/&;])\s*(?:option\s+|choice\s+)?([A-HJ-Z])\b"
)
_WORD = re.compile(r"[^\W_]+")
_JOINING = frozenset({"and", "or", "either", "both", "neither", "nor"})


def is_letter(value: str) -> bool:
    """Whether a canonical value is a letter and not the text of an option."""
    return len(value) == 1 and value.isascii() and value.isalpha()


def _several(text: str) -> bool:
    """Nothing but letters and what joins them."""
    words = [word.lower() for word in _WORD.findall(text)]
    letters = {word for word in words if is_letter(word)}
    return len(letters) > 1 and all(word in letters or word in _JOINING for word in words)


def _letter(text: str, *, named: bool) -> str | None:
    """The upper-case letter that `text` starts with as a choice; empty for several, None for none."""
    match = _ALONE.match(text) or _DELIMITED.match(text) or _VERDICT.match(text)
    if match is None and named:
        match = _NAMED.match(text)
    if match is None:
        return None
    index = match.lastindex or 0
    letter = match[index].upper()
    for other in _OTHER.finditer(text, match.end(index)):
        if any(group and group.upper() != letter for group in other.groups()):
            return ""
    return letter


def read_choice(text: str) -> str | None:
    """An upper-case letter, or the option's text without a closing full stop; None where it is unreadable.

    Never raises; texts of more than `MAX_LABEL_CHARS` characters are not looked at.
    """
    inside = unwrap(text)
    if inside is None or len(inside) > MAX_LABEL_CHARS:
        return None
    lead = _LEAD.match(inside)
    rest = inside[lead.end() :].lstrip("*_ ") if lead else inside
    if _several(rest):
        return None
    letter = _letter(
        rest, named=lead is not None and (lead["noun"].lower() != "answer" or bool(lead["second"]))
    )
    if letter is not None:
        return letter or None
    answer = rest if lead and lead["noun"].lower() == "answer" and lead["link"] else inside
    answer = answer.strip().removesuffix(".").rstrip()
    return answer.encode("utf-8", "replace").decode("utf-8") or None  # lone surrogates cannot be stored
