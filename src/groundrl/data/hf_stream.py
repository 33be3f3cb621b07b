"""The rows of a stream: read forward, one at a time, and from the beginning again at the end.

A stream has one order. An index behind the last one reopens it; one that lies ahead is read up to, without
decoding images, or skipped to where rows are neither held out nor left out.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator

from groundrl.data.base import STRETCH, Split
from groundrl.data.hf_split import HfSplit
from groundrl.data.rows import OnError, Row, Skips
from groundrl.data.solution import SolutionReader
from groundrl.errors import DataError
from groundrl.types import Sample, Task

PEEK = 16
"""Rows of the split that are read when a stream is opened: they are checked and stand for its content."""


class HfStream:
    """The samples of one split in the stream's order; `size` is None, but held-out rows are not repeated."""

    def __init__(self, opened: HfSplit) -> None:
        """Raises DataError for a row that cannot be used, and when there is none."""
        self.opened = opened
        self.size: int | None = None
        self.skips = Skips(opened.on_error, opened.file)
        self._solutions = SolutionReader(opened.file)
        self._direct = opened.heldout_every is None and opened.on_error is OnError.raise_
        self._bad: set[int] = set()
        self._places = array("q")
        self._length: int | None = None
        self._open(0, 0)
        first: list[str] = []
        while len(first) < PEEK and self._length is None:
            if (row := self._next_row()) is not None:
                first.append(repr(row))
        self._solutions.check_order()
        self._fingerprint = opened.digest(*first)

    def tasks(self) -> frozenset[Task]:
        return self.opened.tasks()

    def fingerprint(self) -> str:
        """Of the settings and the first rows: what follows is not known without reading it all."""
        return self._fingerprint

    def sample(self, index: int) -> Sample:
        """Sample `index` (>= 0). Training begins again after the last row.

        Raises DataError for a row that cannot be used, and for a held-out row beyond the last one.
        """
        place = index % STRETCH
        while True:
            place = self._within(place)
            self._seek(place)
            row = self._next_row()
            if row is not None and self._next > place:
                return self.opened.sample(row)

    def _within(self, place: int) -> int:
        """`place` folded into the rows there are, as far as their number is known."""
        if self._length is None or place < self._length:
            return place
        if self.opened.split is Split.HELDOUT:
            raise DataError(
                self.opened.file,
                f"the stream has only {self._length} held-out rows, and row {place + 1} of them is asked for",
                todo="lower eval.samples, or dataset.heldout_every",
            )
        return place % self._length

    def _open(self, record: int, place: int) -> None:
        """Go on at a record, which is row `place` of the split, both counted from 0."""
        self._start = self._record = record
        self._next = place
        table = self.opened.table
        self._records: Iterator[object] = iter(table.skip(record) if record else table)

    def _seek(self, place: int) -> None:
        """Come as near to row `place` of the split as can be without reading on."""
        if self._direct and place != self._next:
            self._open(place, place)
        known = min(place, len(self._places) - 1)
        if not self._direct and (place < self._next or known > self._next):
            self._open(self._places[known], known)

    def _next_row(self) -> Row | None:
        """The next row of the split; None at the end of the stream, which is then counted and reopened."""
        for value in self._values():
            number = self._record
            for row in self._read(number, value):
                if self.opened.holds(row):
                    if not self._direct and self._next == len(self._places):
                        self._places.append(number - 1)
                    self._next += 1
                    return row
        self._ended()
        return None

    def _values(self) -> Iterator[object]:
        """The records that follow. Raises DataError where the stream breaks."""
        while True:
            try:
                value = next(self._records)
            except StopIteration:
                return
            except (OSError, ValueError) as error:
                self._open(self._record, self._next)
                problem = f"the stream broke ({error})"
                raise DataError(self.opened.file, problem, row=self._record + 1, todo="resume") from None
            self._record += 1
            yield value

    def _read(self, number: int, value: object) -> Iterator[Row]:
        if number in self._bad:  # counted when it was first read
            return
        before = self.skips.count
        try:
            yield from self.skips.rows([value], lambda one: [self.opened.row(number, one, self._solutions)])
        except DataError:  # the next call finds the same record
            self._open(number - 1, self._next)
            raise
        if self.skips.count > before:
            self._bad.add(number)
            if str(self.skips.count).strip("0") == "1":  # 1, 10, 100, ...: the end may never come
                self.skips.report()

    def _ended(self) -> None:
        if self._length is None:
            self._solutions.check_order()
            self.skips.report()
            beyond = self._record == self._start > 0  # skipped past the end, which is then not known
            self._length = sum(1 for _ in self.opened.table) if beyond and self._direct else self._next
        if not self._length:
            split = self.opened.split
            raise DataError(self.opened.file, f"has no rows for the {split} split", todo="add rows")
        self._open(0, 0)
