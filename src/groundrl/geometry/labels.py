"""The one normalisation under which labels are compared.

It stands in this low layer because data import, parsing, rewards and evaluation must all agree on it.
"""

from __future__ import annotations

import unicodedata
from functools import lru_cache

_SHORT = 64
"""Characters of a label that is worth remembering: names come back in every answer."""


def normalise_label(label: str) -> str:
    """Canonical caseless form (Unicode 3.13, D145), composed (NFC), runs of whitespace as one space.

    Two labels are the same label iff their normalised forms are equal. Idempotent.
    """
    return _remembered(label) if len(label) <= _SHORT else _normalised(label)


def _normalised(label: str) -> str:
    if label.isascii():
        return " ".join(label.lower().split())
    folded = unicodedata.normalize("NFD", label).casefold()
    return " ".join(unicodedata.normalize("NFC", folded).split())


_remembered = lru_cache(maxsize=4096)(_normalised)
