"""`dataset=qa`: questions with one right answer, in JSON, JSONL or Parquet, under keys that the user names.

ChartQA, TableVQA, MathVision, MMStar, ThinkLite, V*, SuperCLEVR and CLEVR-70k differ in the names of their
columns only; the words that each needs, and what they were read from, stand in docs/howto/data/qa.md. Images
are paths, bytes, base64, or the {bytes, path} objects of the `datasets` library (huggingface/datasets,
src/datasets/features/image.py), which reads Parquet and is optional.

Options become lettered lines below the question, and the truth the letter of the right one. Images stand
before the question, unless `<image>` marks place them elsewhere.

Assumed: MathVision lists options without letters, MMStar and V* write them into the question.
"""

from __future__ import annotations

from dataclasses import dataclass

from groundrl.config.registry import register
from groundrl.data.base import Split
from groundrl.data.columns import Columns
from groundrl.data.loading import load_rows
from groundrl.data.rows import FileConfig, RowSamples
from groundrl.errors import ConfigError
from groundrl.parsing.answer import LOCATING
from groundrl.types import Task


@register("dataset", "qa")
@dataclass(kw_only=True, slots=True)
class QaConfig(FileConfig):
    """Settings of question files.

    task          what rows without options ask for: mcq, numeric, yes_no or text
    question_key  column of the question
    answer_key    column of the truth: a text, a number, or a list of one
    image_key     column of the image or the list of images (null: questions without images)
    options_key   column of the options (null: there is none); rows with options are mcq
    mixed         with task numeric: rows whose truth is no number ask for text (ChartQA, MathVision)
    """

    task: Task = Task.numeric
    question_key: str = "question"
    answer_key: str = "answer"
    image_key: str | None = "image"
    options_key: str | None = None
    mixed: bool = False

    def build(self, split: Split) -> RowSamples:
        """The samples of a split. Raises ConfigError or DataError."""
        if self.task in LOCATING:
            todo = "use reward=answer with task=mcq, numeric, yes_no or text"
            raise ConfigError("task", "a question has no boxes", got=str(self.task), todo=todo)
        if self.mixed and self.task is not Task.numeric:
            problem = f"would be ignored: rows of task {self.task} are not told apart"
            raise ConfigError("mixed", problem, got=True, todo="remove it, or use task=numeric")
        columns = Columns(
            task=self.task,
            question=self.question_key,
            answer=self.answer_key,
            image=self.image_key,
            options=self.options_key,
            mixed=self.mixed,
        )
        assumed = "a missing image column is a question without image; options are in order"
        return RowSamples(self, split, load_rows(self, split, columns.row, assumed=assumed), source="qa")
