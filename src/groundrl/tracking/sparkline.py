"""A curve in a line of text."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

_BLOCKS = "▁▂▃▄▅▆▇█"


def sparkline(values: Sequence[float], width: int, *, encoding: str = "utf-8") -> str:
    """Means of `width` stretches of `values` as blocks from lowest to highest.

    Empty for fewer than two values, for values that are all equal and where the encoding has no blocks.
    """
    try:
        _BLOCKS.encode(encoding)
    except (UnicodeEncodeError, LookupError):
        return ""
    count = min(width, len(values))
    edges = [round(index * len(values) / count) for index in range(count + 1)] if count else []
    means = [sum(values[a:b]) / (b - a) for a, b in pairwise(edges)]
    if len(means) < 2 or max(means) <= min(means):
        return ""
    low, span = min(means), max(means) - min(means)
    return "".join(_BLOCKS[min(7, int((mean - low) / span * 8))] for mean in means)
