"""`dataset=jsonl`: a user's own data without Python, one JSON object a line.

    {"image": "a.jpg", "question": "the red car", "boxes": [[10, 20, 110, 90]]}
    {"image": "b.jpg", "targets": ["car", "dog"], "boxes": [{"bbox_2d": [1, 2, 30, 40], "label": "dog"}]}
    {"image": "c.jpg", "question": "How many dogs are there?", "answer": "3"}

Boxes are xyxy in pixels of the original image. rec and point rows have `question` and one or more boxes; ovd
rows have `targets` and labelled boxes (none: the truth is None); the rows of other tasks have `question` and
`answer`. Targets that are one category under the label normalisation are merged, with a warning.

The first thousand rows are checked when the data is opened, every other one when it is read, and images when
they are opened: a file of a million rows starts within seconds. With `on_error: skip`, which has to count, or
`check: true`, all rows are checked at the start.
"""

from __future__ import annotations

import hashlib
import json
import logging
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from groundrl.config.registry import register
from groundrl.data.base import Split
from groundrl.data.lines import read_line, scan_lines
from groundrl.data.located import read_located
from groundrl.data.overlap import image_id
from groundrl.data.rows import FileConfig, OnError, Row, Skips, opened
from groundrl.errors import DataError
from groundrl.parsing.answer import LOCATING
from groundrl.parsing.final import read_final
from groundrl.types import Sample, Task

logger = logging.getLogger(__name__)


CHECKED = 1000
"""Rows that are checked when the data is opened."""
NAMED = 100_000
"""Rows up to which all images are named at the start of a run."""


@register("dataset", "jsonl")
@dataclass(kw_only=True, slots=True)
class JsonlConfig(FileConfig):
    """Rows of one or two files. `task`: what every row asks for; `check`: check all rows at the start."""

    task: Task = Task.rec
    check: bool = False

    def build(self, split: Split) -> Jsonl:
        return Jsonl(self, split)


class Jsonl:
    """The rows of one split, in file order; only where they begin is kept in memory."""

    def __init__(self, config: JsonlConfig, split: Split) -> None:
        self.config = config
        self.split = split
        self.file = config.file(split)
        self.root = config.image_root(split)
        lines = scan_lines(self.file, config.heldout_every)
        places = np.arange(len(lines.offsets))
        if config.heldout_path is None:
            places = places[lines.heldout == (split is Split.HELDOUT)]
        self._offsets, self._numbers = lines.offsets, lines.numbers
        self._places = self._usable(places)
        if split is Split.TRAIN and config.train_size is not None:
            self._places = self._places[: config.train_size]
        if not len(self._places):
            todo = "give dataset.heldout_path, or more images: those of one image are held out together"
            raise DataError(self.file, f"has no rows for the {split} split", todo=todo)
        self.size: int | None = len(self._places)
        parts = (split, config.heldout_every, config.train_size, config.task, lines.digest, self.size)
        self._fingerprint = hashlib.sha256(repr([str(part) for part in parts]).encode()).hexdigest()[:16]

    def tasks(self) -> frozenset[Task]:
        return frozenset({self.config.task})

    def fingerprint(self) -> str:
        return self._fingerprint

    def image_ids(self) -> frozenset[str] | None:
        """The images of all rows (overlap.py); None for a file too large to read for that."""
        if len(self._places) > NAMED:
            return None
        rows = (self._read(int(place)) for place in self._places)
        return frozenset(image_id(image, self.root) for row in rows for image in row.images)

    def sample(self, index: int) -> Sample:
        row = self._read(int(self._places[index]))
        return opened(row, self.root, file=self.file, split=self.split, source=self.file.name)

    def _read(self, place: int) -> Row:
        number = int(self._numbers[place])
        raw = read_line(self.file, int(self._offsets[place]))
        try:
            line = raw.decode("utf-8")
        except UnicodeDecodeError as error:
            problem = f"is not UTF-8 ({error.reason})"
            raise DataError(self.file, problem, row=number, todo="convert the file to UTF-8") from None
        return self._row(line, number)

    def _usable(self, places: NDArray[np.int64]) -> NDArray[np.int64]:
        """The places that can be used; raises on, or skips, the bad rows that are looked at now.

        Without `skip` those are the first of the file, whichever split they belong to.
        """
        skip = self.config.on_error is OnError.skip
        looked_at = places if skip else np.arange(len(self._offsets))
        if not (skip or self.config.check):
            looked_at = looked_at[:CHECKED]
        skips = Skips(self.config.on_error, self.file)
        merged: list[int] = []
        good: list[int] = []
        for place in looked_at.tolist():
            for row in skips.rows([place], lambda item: [self._read(cast("int", item))]):
                good.append(place)
                merged += [row.number] if row.merged else []
        skips.report()
        if merged:
            logger.warning(
                "%s: targets that are one category were merged in %d rows, first in row %d (%d rows checked)",
                self.file,
                len(merged),
                merged[0],
                len(looked_at),
            )
        return np.array(good, dtype=np.int64) if skip else places

    def _row(self, line: str, number: int) -> Row:
        def bad(problem: str, todo: str = "see docs/howto/data.md") -> DataError:
            return DataError(self.file, problem, row=number, todo=todo)

        try:
            entry: Any = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise bad(f"is not JSON ({error})", "one object a line") from None
        if not isinstance(entry, dict):
            raise bad(f"is a {type(entry).__name__}, not an object")
        unknown = sorted(set(entry) - {"image", "question", "targets", "boxes", "answer", "id"})
        if unknown:
            raise bad(f"unknown key {unknown[0]!r}", "keys are image, question, targets, boxes, answer, id")
        image, boxes, question = entry.get("image"), entry.get("boxes"), entry.get("question")
        if not isinstance(image, str) or not image:
            raise bad("`image` must be a path")
        if self.config.task is not Task.ovd and (not isinstance(question, str) or not question.strip()):
            raise bad("`question` must be a text")
        if self.config.task not in LOCATING:
            answer = entry.get("answer")
            if (
                isinstance(answer, bool)
                or not isinstance(answer, (str, int, float))
                or not str(answer).strip()
            ):
                raise bad("`answer` must be a text or a number")
            if boxes is not None:
                raise bad(f"`boxes` is not used by task {self.config.task}", "remove it")
            answer = str(answer).strip()
            if read_final(answer, self.config.task).value is None and self.config.task is not Task.numeric:
                raise bad(f"`answer` {answer!r} cannot be read as {self.config.task}", "see docs/rewards.md")
            return self._made(number, image, question=str(question), answer=answer)
        if "answer" in entry:
            raise bad(f"`answer` is not used by task {self.config.task}", "remove it, or choose another task")
        located = read_located(self.config.task, boxes, entry.get("targets"), bad)
        question = "" if self.config.task is Task.ovd else str(question)
        return self._made(
            number,
            image,
            question=question,
            targets=located.targets,
            boxes=located.boxes,
            merged=located.merged,
        )

    def _made(self, number: int, image: str, **fields: Any) -> Row:
        name = f"{self.file.name}:{number}"
        return Row(number=number, id=name, task=self.config.task, images=(image,), **fields)
