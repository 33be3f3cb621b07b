"""`dataset=qa`: questions with one right answer, in JSON, JSONL or Parquet, under keys that the user names.

ChartQA, TableVQA, MathVision, MMStar, ThinkLite and V* differ in the names of their columns only; the words
that each needs stand in docs/howto/data/qa.md. Images are paths, bytes, base64, or the {bytes, path} objects
of the `datasets` library (huggingface/datasets, src/datasets/features/image.py), which reads Parquet and is
optional.

Options become lettered lines below the question, and the truth the letter of the right one. Images stand
before the question, unless `<image>` marks place them elsewhere.

Assumed: MathVision lists options without letters, MMStar and V* write them into the question.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from groundrl.config.registry import register
from groundrl.data.base import Split
from groundrl.data.choices import read_options, right_letter, write_options
from groundrl.data.embedded import read_images
from groundrl.data.loading import load_rows
from groundrl.data.records import Record
from groundrl.data.rows import FileConfig, Row, RowSamples
from groundrl.data.solution import SolutionReader, answer_text
from groundrl.data.turns import MARK, place_images
from groundrl.errors import ConfigError
from groundrl.parsing.answer import LOCATING
from groundrl.types import Message, Task


@register("dataset", "qa")
@dataclass(kw_only=True, slots=True)
class QaConfig(FileConfig):
    """Settings of question files.

    task          what rows without options ask for: mcq, numeric, yes_no or text
    question_key  column of the question
    answer_key    column of the truth: a text, a number, or a list of one
    image_key     column of the image or the list of images (null: questions without images)
    options_key   column of the options (null: there is none); rows with options are mcq
    """

    task: Task = Task.numeric
    question_key: str = "question"
    answer_key: str = "answer"
    image_key: str | None = "image"
    options_key: str | None = None

    def build(self, split: Split) -> RowSamples:
        """The samples of a split. Raises ConfigError or DataError."""
        if self.task in LOCATING:
            todo = "use reward=answer with task=mcq, numeric, yes_no or text"
            raise ConfigError("task", "a question has no boxes", got=str(self.task), todo=todo)
        assumed = "a missing image column is a question without image; options are in order"
        return RowSamples(self, split, load_rows(self, split, self._row, assumed=assumed), source="qa")

    def _row(self, record: Record, solutions: SolutionReader) -> Row:
        fields = record.fields()
        question, truth = (
            self._value(record, fields, "question_key"),
            self._value(record, fields, "answer_key"),
        )
        if not isinstance(question, str) or not question.strip():
            raise record.error(f"`{self.question_key}` is no text", "see dataset.question_key")
        if isinstance(truth, list) and len(truth) == 1:
            truth = truth[0]
        images = read_images(record, fields.get(self.image_key)) if self.image_key else ()
        options = read_options(record, fields.get(self.options_key)) if self.options_key else ()
        task = Task.mcq if options else self.task
        if options:
            question = f"{question.rstrip()}\n{write_options(options)}"
            truth = right_letter(record, options, answer_text(record, truth))
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

    def _value(self, record: Record, fields: Mapping[str, Any], setting: str) -> Any:
        key: str = getattr(self, setting)
        if key not in fields:
            has = ", ".join(map(str, fields))
            raise record.error(f"has no `{key}`, only {has}", f"name the column with dataset.{setting}")
        return fields[key]


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
