"""The one normalisation under which labels are compared.

It stands in this low layer because data import, parsing, rewards and evaluation must all agree on it.
"""

from __future__ import annotations

import unicodedata


def normalise_label(label: str) -> str:
    """Canonical caseless form (Unicode 3.13, D145), composed (NFC), runs of whitespace as one space.

    Two labels are the same label iff their normalised forms are equal. Idempotent.
    """
    folded = unicodedata.normalize("NFD", label).casefold()
    return " ".join(unicodedata.normalize("NFC", folded).split())
