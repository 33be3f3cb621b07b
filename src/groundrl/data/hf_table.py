"""The rows of a memory-mapped table: only their places are kept, and any of them can be asked for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

import numpy as np
from numpy.typing import NDArray

from groundrl.data.base import Split
from groundrl.data.hf_split import HfSplit
from groundrl.data.overlap import image_id
from groundrl.data.rows import OnError, Row, Skips
from groundrl.data.solution import SolutionReader
from groundrl.errors import DataError
from groundrl.types import Sample, Task

CHECKED = 1000
"""Rows that are checked when a table is opened whose splits are given and whose bad rows are errors."""
NAMED = 100_000
"""Rows up to which all images are named at the start of a run."""
KEPT = 8
"""Tables whose scans are remembered: a run opens each several times."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scan:
    """places int64 [N] of the rows that can be used; heldout bool [N]: whether their content holds them out,
    where both splits are of one table."""

    places: NDArray[np.int64]
    heldout: NDArray[np.bool_]


_scans: dict[str, Scan] = {}


class HfTable:
    """The samples of one split, in the table's order.

    All rows are read when the table is opened where the split or what is skipped depends on their content;
    else the first thousand are, and every other one when its sample is asked for.
    """

    def __init__(self, opened: HfSplit, train_size: int | None) -> None:
        """Raises DataError for a row that cannot be used, and when no row is left."""
        self.opened = opened
        self._solutions = SolutionReader(opened.file)
        content: str = opened.table._fingerprint
        scan = self._scan(
            f"{content} {opened.columns} {opened.heldout_every} {opened.on_error} {opened.root}"
        )
        places = scan.places
        if opened.heldout_every is not None:
            places = places[scan.heldout == (opened.split is Split.HELDOUT)]
        self._places = places if train_size is None else places[:train_size]
        if not len(self._places):
            raise DataError(opened.file, f"has no rows for the {opened.split} split", todo="add rows")
        self.size: int | None = len(self._places)
        self._fingerprint = opened.digest(content, self.size)

    def tasks(self) -> frozenset[Task]:
        return self.opened.tasks()

    def fingerprint(self) -> str:
        return self._fingerprint

    def image_ids(self) -> frozenset[str] | None:
        """The images of all rows (overlap.py); None for a table too large to read for that."""
        if len(self._places) > NAMED:
            return None
        rows = (self._row(place) for place in self._places.tolist())
        return frozenset(image_id(image, self.opened.root) for row in rows for image in row.images)

    def sample(self, index: int) -> Sample:
        return self.opened.sample(self._row(int(self._places[index])))

    def _row(self, place: int) -> Row:
        return self.opened.row(place + 1, self.opened.table[place], self._solutions)

    def _scan(self, key: str) -> Scan:
        if key not in _scans:
            made = self._read_all()
            while len(_scans) >= KEPT:
                del _scans[next(iter(_scans))]
            _scans[key] = made
        return _scans[key]

    def _read_all(self) -> Scan:
        opened, count = self.opened, len(self.opened.table)
        whole = opened.heldout_every is not None or opened.on_error is OnError.skip
        looked_at = range(count if whole else min(count, CHECKED))
        skips = Skips(opened.on_error, opened.file)
        places: list[int] = []
        heldout: list[bool] = []
        for row in skips.rows(looked_at, lambda place: [self._row(cast("int", place))]):
            places.append(row.number - 1)
            heldout.append(opened.heldout(row))
        self._solutions.check_order()
        skips.report()
        return Scan(
            places=np.array(places, dtype=np.int64) if whole else np.arange(count),
            heldout=np.array(heldout, dtype=np.bool_),
        )
