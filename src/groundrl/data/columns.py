"""Rows whose columns the user names: question, answer, image, options, boxes, targets."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from groundrl.data.choices import read_options, right_letter, write_options
from groundrl.data.embedded import read_images
from groundrl.data.located import corners, ordered, read_located
from groundrl.data.records import Record
from groundrl.data.refcoco_json import BoxOrder
from groundrl.data.rows import Row
from groundrl.data.solution import SolutionReader, answer_text, is_number
from groundrl.data.turns import MARK, place_images
from groundrl.parsing.answer import LOCATING
from groundrl.types import Message, Task

YES_NO = {"1": "yes", "true": "yes", "0": "no", "false": "no"}
"""Other forms in which files write the truth of a yes_no question."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Columns:
    """What the rows ask for, and the names of their columns (None: there is none).

    mixed  with task numeric: rows whose truth is no number ask for text
    """

    task: Task
    question: str
    answer: str
    image: str | None
    options: str | None = None
    boxes: str | None = None
    targets: str | None = None
    order: BoxOrder = BoxOrder.xyxy
    mixed: bool = False

    def used(self) -> dict[str, str]:
        """Setting -> column, for every column that rows of the task are read from."""
        settings = {"question_key": self.question, "answer_key": self.answer, "image_key": self.image}
        settings |= {"options_key": self.options, "boxes_key": self.boxes, "targets_key": self.targets}
        unread = {"answer_key"} if self.task in LOCATING else set[str]()
        unread |= {"question_key"} if self.task is Task.ovd else set[str]()
        return {
            setting: column
            for setting, column in settings.items()
            if column is not None and setting not in unread
        }

    def row(self, record: Record, solutions: SolutionReader) -> Row:
        """The row of a record; those with options are mcq. Raises DataError."""
        fields = record.fields()
        if self.task in LOCATING:
            return self._located(record, fields, solutions)
        question = self._question(record, fields)
        truth = _value(record, fields, self.answer, "answer_key")
        if isinstance(truth, list) and len(truth) == 1:
            truth = truth[0]
        images = read_images(record, fields.get(self.image)) if self.image else ()
        options = read_options(record, fields.get(self.options)) if self.options else ()
        task = Task.mcq if options else self.task
        if options:
            question = f"{question.rstrip()}\n{write_options(options)}"
            truth = right_letter(record, options, answer_text(record, truth))
        elif self.mixed and task is Task.numeric and not is_number(answer_text(record, truth)):
            task = Task.text
        elif task is Task.yes_no:
            truth = YES_NO.get(str(truth).strip().lower(), truth)
        question, messages = _placed(record, question, len(images))
        return Row(
            number=record.number,
            id=record.name(fields.get("id")),
            task=task,
            images=images,
            question=question,
            answer=solutions.read(record, task, truth, len(images)).answer,
            messages=messages,
            key="|".join(_name(image) for image in images) or question,
        )

    def _located(self, record: Record, fields: Mapping[str, Any], solutions: SolutionReader) -> Row:
        assert self.image is not None
        assert self.boxes is not None
        images = read_images(record, _value(record, fields, self.image, "image_key"))
        if not images:
            raise record.error(f"`{self.image}` holds no image", "remove the row")
        boxes = _value(record, fields, self.boxes, "boxes_key")
        if (
            isinstance(boxes, list)
            and len(boxes) == 4
            and not any(isinstance(v, (list, dict)) for v in boxes)
        ):
            boxes = [boxes]
        if isinstance(boxes, list):
            found = [xyxy for box in boxes if (xyxy := corners(box, self.order)) is not None]
            solutions.items += len(found)
            solutions.disordered += sum(not ordered(xyxy) for xyxy in found)
        located = read_located(
            self.task,
            boxes,
            fields.get(self.targets) if self.targets else None,
            record.error,
            order=self.order,
            boxes_key=self.boxes,
            targets_key=self.targets or "targets",
        )
        question, messages = "", ()
        if self.task is not Task.ovd:
            question, messages = _placed(record, self._question(record, fields), len(images))
        return Row(
            number=record.number,
            id=record.name(fields.get("id")),
            task=self.task,
            images=images,
            question=question,
            targets=located.targets,
            boxes=located.boxes,
            messages=messages,
            key="|".join(_name(image) for image in images),
            merged=located.merged,
        )

    def _question(self, record: Record, fields: Mapping[str, Any]) -> str:
        question = _value(record, fields, self.question, "question_key")
        if not isinstance(question, str) or not question.strip():
            raise record.error(f"`{self.question}` is no text", "see dataset.question_key")
        return question


def _value(record: Record, fields: Mapping[str, Any], column: str, setting: str) -> Any:
    if column not in fields:
        has = ", ".join(map(str, fields))
        raise record.error(f"has no `{column}`, only {has}", f"name the column with dataset.{setting}")
    return fields[column]


def _placed(record: Record, question: str, images: int) -> tuple[str, tuple[Message, ...]]:
    """The question, and messages only where its marks do not all stand in front."""
    rest = question.lstrip()
    while rest.startswith(MARK):
        rest = rest[len(MARK) :].lstrip()
    leading = question[: len(question) - len(rest)].count(MARK)
    if MARK not in question or (MARK not in rest and leading == images):
        return rest, ()
    messages = place_images(record, [("user", question)], images)
    return question.replace(MARK, "").strip(), messages


def _name(image: str | bytes) -> str:
    return image if isinstance(image, str) else hashlib.sha256(image).hexdigest()
