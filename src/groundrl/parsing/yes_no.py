"""Yes or no.

Policy: the words count as whole words, in any case. Where the first word is one of them it decides, unless
"or" or the opposite follows ("yes or no", "yes/no", "yes and no", "no, yes"). Elsewhere every yes or no of
the text must agree. A word joined by a hyphen or an apostrophe is one word, so "no-one" is not "no".
"""

from __future__ import annotations

import re
from itertools import chain, islice

from groundrl.parsing.markup import unwrap

_WORD = re.compile(r"[^\W_]++(?:['’‑-][^\W_]++)*+")
_OPPOSITE = {"yes": "no", "no": "yes"}


def read_yes_no(text: str) -> str | None:
    """ "yes" or "no"; None where neither is said, or both. Never raises; linear in the text."""
    inside = unwrap(text)
    if inside is None:
        return None
    words = (match[0].lower() for match in _WORD.finditer(inside))
    first = list(islice(words, 3))
    if first and first[0] in _OPPOSITE:
        opposite = _OPPOSITE[first[0]]
        hedged = first[1:2] in (["or"], [opposite]) or first[1:] == ["and", opposite]
        return None if hedged else first[0]
    said: str | None = None
    for word in chain(first, words):
        if word in _OPPOSITE:
            if said not in (None, word):
                return None
            said = word
    return said
