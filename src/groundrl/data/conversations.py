"""`dataset=llava`, `dataset=swift`: conversations made for supervised tuning, as questions with an answer.

LLaVA and ShareGPT: haotian-liu/LLaVA, docs/Finetune_Custom_Data.md: a list of `id`, `image`, `conversations`
of {from: human | gpt, value}. ms-swift: modelscope/ms-swift, docs/source_en/Customization/Custom-dataset.md:
`messages` of {role, content} and `images`, with `<image>` in the text where an image stands.

All turns but a last assistant turn are the prompt; the text of that turn is the truth.

Assumed: LLaVA rows of several images list them as `images`, or as a list in `image`; the truth of ms-swift
rows is `solution` or `answer` where they have one (extra fields go on to the reward under names that its user
chooses).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from groundrl.config.registry import register
from groundrl.data.base import Split
from groundrl.data.loading import load_rows
from groundrl.data.records import Record
from groundrl.data.rows import FileConfig, Row, RowSamples
from groundrl.data.solution import SolutionReader
from groundrl.data.turns import Turn, image_paths, place_images, question_of, read_turns
from groundrl.types import Task

UNSUPPORTED = ("videos", "video", "audios", "audio", "tools", "objects")
"""Keys whose content would be lost: rows that use them are refused."""


@dataclass(kw_only=True, slots=True)
class ConversationConfig(FileConfig):
    """Settings of files of conversations.

    task  what the truth is: a text, or what the answers of another task hold
    """

    task: Task = Task.text

    def make_row(
        self,
        record: Record,
        solutions: SolutionReader,
        turns: list[Turn],
        truths: Mapping[str, Any],
        images: Any,
    ) -> Row:
        """The row of a conversation. `truths` are given apart from the turns, by the key of each."""
        fields = record.fields()
        for key in UNSUPPORTED:
            if fields.get(key):
                raise record.error(f"uses `{key}`, which is not supported", "remove the row")
        given = {key: value for key, value in truths.items() if value is not None}
        prompt = turns[:-1] if turns[-1][0] == "assistant" else turns
        if len(prompt) < len(turns) and not given:
            given["the last turn"] = turns[-1][1]
        if not prompt or prompt[-1][0] != "user":
            raise record.error("has no user turn to answer", "let a user turn come before the answer")
        if not given:
            raise record.error("has no answer", "end with an assistant turn, or add `solution`")
        if len({str(value) for value in given.values()}) > 1:
            raise record.error(f"{' and '.join(given)} differ", "keep one of them")
        paths = image_paths(record, images)
        solution = solutions.read(record, self.task, next(iter(given.values())), len(paths))
        question = question_of(prompt)
        return Row(
            number=record.number,
            id=record.name(fields.get("id")),
            task=self.task,
            images=paths,
            question=question,
            targets=solution.labels if self.task is Task.ovd else (),
            boxes=solution.boxes,
            answer=solution.answer,
            messages=place_images(record, prompt, len(paths)),
            key="|".join(paths) or question,
        )


@register("dataset", "llava")
@dataclass(kw_only=True, slots=True)
class LlavaConfig(ConversationConfig):
    """`dataset=llava`: LLaVA and ShareGPT, JSON or JSONL."""

    def build(self, split: Split) -> RowSamples:
        """The samples of a split. Raises ConfigError or DataError."""
        assumed = "the last gpt turn is the truth; several images are a list in `image` or `images`"
        return RowSamples(self, split, load_rows(self, split, self._row, assumed=assumed), source="llava")

    def _row(self, record: Record, solutions: SolutionReader) -> Row:
        fields = record.fields()
        turns = read_turns(record, fields.get("conversations"), "from", "value")
        images, image = fields.get("images"), fields.get("image")
        if images and image:
            raise record.error("has both `image` and `images`", "keep one of them")
        return self.make_row(record, solutions, turns, {}, images or image)


@register("dataset", "swift")
@dataclass(kw_only=True, slots=True)
class SwiftConfig(ConversationConfig):
    """`dataset=swift`: ms-swift, JSON or JSONL."""

    def build(self, split: Split) -> RowSamples:
        """The samples of a split. Raises ConfigError or DataError."""
        assumed = "the truth is `solution` or `answer`, else the last assistant turn"
        return RowSamples(self, split, load_rows(self, split, self._row, assumed=assumed), source="swift")

    def _row(self, record: Record, solutions: SolutionReader) -> Row:
        fields = record.fields()
        turns = read_turns(record, fields.get("messages"), "role", "content")
        truths = {key: fields.get(key) for key in ("solution", "answer")}
        return self.make_row(record, solutions, turns, truths, fields.get("images"))
