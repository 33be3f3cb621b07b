"""Several data sets of one task behind each other, each with a source of its own."""

from __future__ import annotations

import hashlib
from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate

from groundrl.data.rows import RowSamples
from groundrl.types import Sample, Task


class Subsets:
    """The samples of several parts, one part after the other; of the whole, the first `limit`."""

    def __init__(self, parts: Sequence[RowSamples], limit: int | None) -> None:
        self._parts = tuple(parts)
        self._ends = list(accumulate(len(part.rows) for part in parts))
        self.size: int | None = self._ends[-1] if limit is None else min(limit, self._ends[-1])

    def sample(self, index: int) -> Sample:
        place = bisect_right(self._ends, index)
        return self._parts[place].sample(index - (self._ends[place - 1] if place else 0))

    def tasks(self) -> frozenset[Task]:
        return frozenset[Task]().union(*(part.tasks() for part in self._parts))

    def image_ids(self) -> frozenset[str]:
        """The images of all parts (overlap.py)."""
        return frozenset[str]().union(*(part.image_ids() for part in self._parts))

    def fingerprint(self) -> str:
        parts = [(part.source, part.fingerprint()) for part in self._parts]
        return hashlib.sha256(repr((parts, self.size)).encode()).hexdigest()[:16]
