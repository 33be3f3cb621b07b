"""`dataset=jsonl`: a user's own data without Python, one JSON object a line.

    {"image": "a.jpg", "question": "the red car", "boxes": [[10, 20, 110, 90]]}
    {"image": "b.jpg", "targets": ["car", "dog"], "boxes": [{"bbox_2d": [1, 2, 30, 40], "label": "dog"}]}
    {"image": "c.jpg", "question": "How many dogs are there?", "answer": "3"}

Boxes are xyxy in pixels of the original image. rec and point rows have `question` and one or more boxes; ovd
rows have `targets` and labelled boxes (none: the truth is None); the rows of other tasks have `question` and
`answer`. Targets that are one category under the label normalisation are merged, with a warning. Every row is
checked when the data is opened; images are opened when their sample is asked for.
"""

from __future__ import annotations

import hashlib
import json
import logging
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from groundrl.config.registry import register
from groundrl.data.base import DatasetConfig, Split
from groundrl.data.images import open_image
from groundrl.data.targets import merge_targets
from groundrl.errors import ConfigError, DataError
from groundrl.geometry.labels import normalise_label
from groundrl.parsing.answer import LOCATING
from groundrl.parsing.final import read_final
from groundrl.types import LabeledBox, Sample, Task, Truth

logger = logging.getLogger(__name__)


@register("dataset", "jsonl")
@dataclass(kw_only=True, slots=True)
class JsonlConfig(DatasetConfig):
    """Rows of one file.

    path            the .jsonl file, UTF-8
    images          folder that image paths are relative to (null: the file's own)
    task            what every row asks for
    heldout_every   about one row in so many is held out, chosen by a digest of its content, so that the
                    split does not change when rows are added or moved
    """

    path: str = "???"
    images: str | None = None
    task: Task = Task.rec
    heldout_every: int = 10

    def __post_init__(self) -> None:
        DatasetConfig.__post_init__(self)
        if self.heldout_every < 2:
            raise ConfigError("heldout_every", "must be >= 2", got=self.heldout_every, todo="e.g. 10")

    def build(self, split: Split) -> Jsonl:
        return Jsonl(self, split)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Row:
    number: int
    image: str
    question: str
    targets: tuple[str, ...]
    boxes: tuple[LabeledBox, ...]
    answer: str | None = None


class Jsonl:
    """The rows of one split, in file order."""

    def __init__(self, config: JsonlConfig, split: Split) -> None:
        self.config = config
        self.split = split
        self.file = Path(config.path)
        self.root = Path(config.images) if config.images else self.file.parent
        self._digest = hashlib.sha256()
        self._merged: list[int] = []
        rows = self._read()
        if self._merged:
            logger.warning(
                "%s: targets that are one category under the label normalisation were merged in %d rows, "
                "first in row %d",
                self.file,
                len(self._merged),
                self._merged[0],
            )
        if split is Split.TRAIN and config.train_size is not None:
            rows = rows[: config.train_size]
        if not rows:
            raise DataError(self.file, f"has no rows for the {split} split", todo="add rows")
        self._rows = rows
        self.size: int | None = len(rows)

    def tasks(self) -> frozenset[Task]:
        return frozenset({self.config.task})

    def fingerprint(self) -> str:
        return self._digest.hexdigest()[:16]

    def sample(self, index: int) -> Sample:
        row = self._rows[index]
        image = open_image(row.image, self.root, file=self.file, row=row.number)
        width, height = image.size
        for box in row.boxes:
            x1, y1, x2, y2 = box.xyxy
            if not (0 <= x1 < x2 <= width and 0 <= y1 < y2 <= height):
                raise DataError(
                    self.file,
                    f"box {list(box.xyxy)} lies outside its {width} x {height} image",
                    row=row.number,
                    todo="boxes are xyxy in pixels of the upright image",
                )
        return Sample(
            id=f"{self.file.name}:{row.number}",
            task=self.config.task,
            images=(image,),
            truth=Truth(boxes=row.boxes, answer=row.answer),
            question=row.question,
            targets=row.targets,
            split=str(self.split),
            source=str(self.file.name),
        )

    def _read(self) -> list[_Row]:
        rows: list[_Row] = []
        self._digest.update(f"{self.split}{self.config.heldout_every}{self.config.train_size}".encode())
        try:
            with self.file.open(encoding="utf-8") as stream:
                for number, line in enumerate(stream, start=1):
                    if not line.strip():
                        continue
                    self._digest.update(line.encode())
                    row = self._row(line, number)
                    first = int.from_bytes(hashlib.sha256(line.strip().encode()).digest()[:4], "big")
                    held = first % self.config.heldout_every == 0
                    if held == (self.split is Split.HELDOUT):
                        rows.append(row)
        except FileNotFoundError:
            raise ConfigError(
                "dataset.path", "no such file", got=str(self.file), todo="give the .jsonl file"
            ) from None
        except UnicodeDecodeError as error:
            raise DataError(self.file, f"is not UTF-8 ({error.reason})", todo="convert it to UTF-8") from None
        return rows

    def _row(self, line: str, number: int) -> _Row:
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
            return _Row(
                number=number, image=image, question=str(question), targets=(), boxes=(), answer=answer
            )
        if "answer" in entry:
            raise bad(f"`answer` is not used by task {self.config.task}", "remove it, or choose another task")
        if not isinstance(boxes, list):
            raise bad("`boxes` must be a list (empty when nothing is there)")
        parsed = tuple(self._box(box, number) for box in boxes)
        if self.config.task is not Task.ovd:
            if not parsed:
                raise bad("`boxes` is empty, but a described object has its box")
            return _Row(number=number, image=image, question=str(question), targets=(), boxes=parsed)
        targets = entry.get("targets")
        if not isinstance(targets, list) or not targets or not all(isinstance(t, str) for t in targets):
            raise bad("`targets` must be a list of category names")
        merged, dropped = merge_targets(targets)
        if dropped:
            self._merged.append(number)
        known = {normalise_label(target) for target in merged}
        for box in parsed:
            if normalise_label(box.label) not in known:
                raise bad(f"label {box.label!r} is not among the targets", "add it to `targets`")
        return _Row(number=number, image=image, question="", targets=merged, boxes=parsed)

    def _box(self, value: Any, number: int) -> LabeledBox:
        named = isinstance(value, dict)
        raw: Any = value.get("bbox_2d") if named else value
        label: Any = value.get("label", "") if named else ""
        good = (
            isinstance(raw, list)
            and len(raw) == 4
            and all(isinstance(v, (int, float)) and not isinstance(v, bool) and math.isfinite(v) for v in raw)
        )
        if not good or not isinstance(label, str) or not (raw[0] < raw[2] and raw[1] < raw[3]):
            raise DataError(
                self.file,
                f"box {value!r} is not [x1, y1, x2, y2] with x1 < x2 and y1 < y2",
                row=number,
                todo='write a list, or {"bbox_2d": [...], "label": "..."}',
            )
        return LabeledBox(xyxy=(float(raw[0]), float(raw[1]), float(raw[2]), float(raw[3])), label=label)
