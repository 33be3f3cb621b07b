"""Hand-written cases for `explain`: one JSON object a line, turned into a sample and a rollout.

    {"truth": [{"bbox_2d": [0, 0, 9, 9], "label": "dog"}], "image_size": [640, 480], "answer": "<think>..."}

truth        list of {bbox_2d, label} in pixels of the original image, null for nothing there; text or a
             number for questions with one right answer
image_size   [width, height] of the original image; processed_size, if it was resized, of what the model saw
answer       what the model wrote, tags included
num_tokens   sampled tokens of it (default 0); truncated: it hit the length limit
task         what was asked (default: what the reward is written for); question, targets: how
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from groundrl.errors import DataError
from groundrl.parsing.answer import LOCATING
from groundrl.rollout.written import written_rollout
from groundrl.types import (
    CoordinateSpace,
    ImageFrame,
    LabeledBox,
    Rollout,
    RolloutStatus,
    Sample,
    Size,
    Task,
    Truth,
)

KEYS = (
    "truth",
    "image_size",
    "processed_size",
    "answer",
    "num_tokens",
    "truncated",
    "task",
    "question",
    "targets",
    "id",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """Line `row` of the file, counted from 1."""

    row: int
    sample: Sample
    rollout: Rollout


def read_cases(path: Path, *, task: Task, space: CoordinateSpace) -> Iterator[Case]:
    """The cases of a file, in order. Raises DataError naming the row that cannot be used."""
    try:
        lines = path.read_text("utf-8").split("\n")
    except FileNotFoundError:
        raise DataError(path, "no such file", todo="give a .jsonl file of cases") from None
    except UnicodeDecodeError as error:
        raise DataError(path, f"is not UTF-8 ({error.reason})", todo="convert it to UTF-8") from None
    for row, line in enumerate(lines, start=1):
        if line.strip():
            yield _Line(path, row, line).case(task, space)


class _Line:
    def __init__(self, path: Path, row: int, line: str) -> None:
        self.path, self.row = path, row
        try:
            entry: Any = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise self.bad(f"is not JSON ({error})", "one object a line") from None
        if not isinstance(entry, dict):
            raise self.bad(f"is a {type(entry).__name__}, not an object", "one object a line")
        unknown = sorted(set(entry) - set(KEYS))
        if unknown:
            raise self.bad(f"unknown key {unknown[0]!r}", f"keys are {', '.join(KEYS)}")
        self.entry: Mapping[str, Any] = entry

    def bad(self, problem: str, todo: str) -> DataError:
        return DataError(self.path, problem, row=self.row, todo=todo)

    def case(self, task: Task, space: CoordinateSpace) -> Case:
        task = self._task(task)
        original = self._size("image_size")
        processed = self._size("processed_size") if "processed_size" in self.entry else original
        name = f"{self.path.name}:{self.row}"
        sample = Sample(
            id=name,
            task=task,
            images=(),
            truth=self._truth(task),
            question=self._text("question", ""),
            targets=self._targets(),
        )
        rollout = written_rollout(
            name,
            self._text("answer", None),
            [ImageFrame(original=original, processed=processed)],
            space=space,
            status=RolloutStatus.TRUNCATED_LENGTH if self._flag() else RolloutStatus.FINISHED,
            tokens=self._tokens(),
        )
        return Case(row=self.row, sample=sample, rollout=rollout)

    def _task(self, default: Task) -> Task:
        name = self.entry.get("task", default.value)
        if name not in list(Task):
            raise self.bad(f"unknown task {name!r}", f"tasks are {', '.join(Task)}")
        return Task(name)

    def _size(self, key: str) -> Size:
        value: Any = self.entry.get(key)
        if not _numbers(value, 2) or not all(side >= 1 and float(side).is_integer() for side in value):
            raise self.bad(f"`{key}` is {value!r}", f"`{key}` must be [width, height] in whole pixels")
        return int(value[0]), int(value[1])

    def _text(self, key: str, default: str | None) -> str:
        value = self.entry.get(key, default)
        if not isinstance(value, str):
            raise self.bad(f"`{key}` is {value!r}", f"`{key}` must be a text")
        return value

    def _tokens(self) -> int:
        value = self.entry.get("num_tokens", 0)
        if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= 10_000_000:
            raise self.bad(f"`num_tokens` is {value!r}", "`num_tokens` must be a whole number >= 0")
        return value

    def _flag(self) -> bool:
        value = self.entry.get("truncated", False)
        if not isinstance(value, bool):
            raise self.bad(f"`truncated` is {value!r}", "`truncated` must be true or false")
        return value

    def _targets(self) -> tuple[str, ...]:
        value = self.entry.get("targets", [])
        if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
            raise self.bad("`targets` is not a list of names", 'e.g. ["dog", "cat"]')
        return tuple(value)

    def _truth(self, task: Task) -> Truth:
        if "truth" not in self.entry:
            raise self.bad("`truth` is missing", "give a list of boxes, or null for nothing there")
        value = self.entry["truth"]
        if task not in LOCATING:
            if isinstance(value, bool) or not isinstance(value, (str, int, float)):
                raise self.bad(f"`truth` is {value!r}", f"task {task} has a text or a number as truth")
            return Truth(answer=str(value))
        if value is None:
            return Truth()
        if not isinstance(value, list):
            raise self.bad(f"`truth` is {value!r}", "give a list of boxes, or null for nothing there")
        return Truth(boxes=tuple(self._box(one) for one in value))

    def _box(self, value: Any) -> LabeledBox:
        fields: dict[str, Any] = value if isinstance(value, dict) else {}
        box: Any = fields.get("bbox_2d")
        label = fields.get("label", "")
        known = fields.keys() <= {"bbox_2d", "label"}
        if not known or not isinstance(label, str) or not _numbers(box, 4) or not _upright(box):
            raise self.bad(
                f"true box {value!r}",
                'must be {"bbox_2d": [x1, y1, x2, y2], "label": "..."}, x1 < x2, y1 < y2',
            )
        x1, y1, x2, y2 = (float(v) for v in box)
        return LabeledBox(xyxy=(x1, y1, x2, y2), label=label)


def _upright(box: Sequence[float]) -> bool:
    return box[0] < box[2] and box[1] < box[3]


def _numbers(value: Any, count: int) -> bool:
    return (
        isinstance(value, list)
        and len(value) == count
        and all(isinstance(v, (int, float)) and not isinstance(v, bool) and math.isfinite(v) for v in value)
    )
