"""One split of a table of the library `datasets`, from its records to rows and samples."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from groundrl.data.base import Split
from groundrl.data.columns import Columns
from groundrl.data.images import find_image
from groundrl.data.records import Record
from groundrl.data.rows import OnError, Row, is_heldout, opened
from groundrl.data.solution import SolutionReader
from groundrl.types import Sample, Task


@dataclass(frozen=True, slots=True, kw_only=True)
class HfSplit:
    """What a table and a stream have in common.

    table          a Dataset or an IterableDataset with undecoded images and only the columns that are read
    file           its name in errors: PATH:SPLIT
    heldout_every  about one row in so many is held out (None: each split has a table of its own)
    """

    table: Any
    file: Path
    root: Path
    split: Split
    source: str
    columns: Columns
    heldout_every: int | None
    on_error: OnError

    def row(self, number: int, value: object, solutions: SolutionReader) -> Row:
        """The row of record `number` (from 1), its images looked for. Raises DataError naming it."""
        row = self.columns.row(Record(self.file, number, value), solutions)
        for image in row.images:
            if isinstance(image, str):
                find_image(image, self.root, file=self.file, row=number)
        return row

    def heldout(self, row: Row) -> bool:
        """Whether the row's content puts it into the held-out part of a table that serves both splits."""
        return self.heldout_every is not None and is_heldout(row.key or row.id, self.heldout_every)

    def holds(self, row: Row) -> bool:
        """Whether the row belongs to the split."""
        return self.heldout_every is None or self.heldout(row) == (self.split is Split.HELDOUT)

    def sample(self, row: Row) -> Sample:
        return opened(row, self.root, file=self.file, split=self.split, source=self.source)

    def tasks(self) -> frozenset[Task]:
        """The tasks that rows may have: with a column of options also mcq."""
        return frozenset({self.columns.task} | ({Task.mcq} if self.columns.options else set()))

    def digest(self, *content: object) -> str:
        """A hash of what decides the samples besides `content`, and of it."""
        parts = (self.columns, self.split, self.heldout_every, self.on_error, self.table.features, *content)
        return hashlib.sha256(repr([str(part) for part in parts]).encode()).hexdigest()[:16]
