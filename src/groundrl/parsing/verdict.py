"""A verdict on an answer: the first YES or NO (SVR-R1, section 3).

Policy: case and brackets do not count, the word must stand alone, and the first of the two decides, so
`NO<YES>` is no. Unlike an answer to a yes-no question (`yes_no`), a verdict may go on.
"""

from __future__ import annotations

import re

_WORD = re.compile(r"(?<![^\W_])(yes|no)(?![^\W_])", re.IGNORECASE)


def read_verdict(text: str) -> bool | None:
    """Whether the verdict is YES; None where neither word stands in the text. Never raises; linear."""
    found = _WORD.search(text)
    return None if found is None else found[1].lower() == "yes"
