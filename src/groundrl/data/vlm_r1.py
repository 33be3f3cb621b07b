"""`dataset=vlm_r1`: JSONL in the format of the VLM-R1 release.

Format: om-ai-lab/VLM-R1, README.md ("For your own data"), src/open-r1-multimodal/src/open_r1/grpo_jsonl.py.
A row has `image` (a path, a list of them, or absent), `conversations` (one human turn with `<image>` marks,
one gpt turn with a text or a number) and, where it likes, `accu_reward_method`.

Differences on purpose: each image stands where its mark stands, while the release moves all to the front; a
mark without image, or the reverse, is an error; the file is read as UTF-8.

Assumed: detection solutions are a json fence of `bbox_2d` and `label`, or None; a solution of the method
`rec` is one list [x1, y1, x2, y2], in pixels of the original image.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from groundrl.config.registry import register
from groundrl.data.base import Split
from groundrl.data.loading import load_rows
from groundrl.data.records import Record
from groundrl.data.rows import FileConfig, Row, RowSamples
from groundrl.data.solution import SolutionReader, answer_text, is_number
from groundrl.data.turns import ROLES, image_paths, place_images, question_of, read_turns
from groundrl.types import Task

METHODS = {
    "mcq": Task.mcq,
    "yes_no": Task.yes_no,
    "numeric": Task.numeric,
    "math": Task.text,
    "all_match": Task.text,
    "rec": Task.rec,
    **dict.fromkeys(("map", "od_ap", "od_ap50", "odLength", "weighted_sum"), Task.ovd),
}
"""`accu_reward_method` of a row -> what it asks for."""

DEFAULT = "default"
REWARDS = (
    "the reward is chosen for the run: reward=answer (terms mcq, yes_no, numeric, exact, math, all_match), "
    "odlength, ap, ap50, weighted_sum, iou_rec or custom"
)
ASSUMED = "boxes are [x1, y1, x2, y2] in original pixels; detection asks for the labels of the solution"


@register("dataset", "vlm_r1")
@dataclass(kw_only=True, slots=True)
class VlmR1Config(FileConfig):
    """Settings of VLM-R1 files.

    task  what rows without `accu_reward_method` ask for; with `numeric`, those whose solution is no number
          ask for text, as do all such rows of the method `default`
    """

    task: Task = Task.numeric

    def build(self, split: Split) -> RowSamples:
        """The samples of a split. Raises ConfigError or DataError."""
        return RowSamples(self, split, load_rows(self, split, self._row, assumed=ASSUMED), source="vlm_r1")

    def _row(self, record: Record, solutions: SolutionReader) -> Row:
        fields = record.fields()
        turns: Any = fields.get("conversations")
        if not isinstance(turns, list) or len(turns) != 2 or not isinstance(turns[1], dict):
            raise record.error("`conversations` is not one human and one gpt turn", "split longer talks")
        prompt, reply = read_turns(record, turns[:1], "from", "value"), turns[1]
        if prompt[0][0] != "user" or ROLES.get(str(reply.get("from"))) != "assistant":
            raise record.error("`conversations` is not a human turn and a gpt turn", "name them in `from`")
        paths = image_paths(record, fields.get("image"))
        messages = place_images(record, prompt, len(paths))
        task = self._task(record, fields.get("accu_reward_method"), reply.get("value"))
        solution = solutions.read(record, task, reply.get("value"), len(paths))
        question = question_of(prompt)
        return Row(
            number=record.number,
            id=record.name(fields.get("id")),
            task=task,
            images=paths,
            question=question,
            targets=solution.labels if task is Task.ovd else (),
            boxes=solution.boxes,
            answer=solution.answer,
            messages=messages,
            key="|".join(paths) or question,
        )

    def _task(self, record: Record, method: object, value: object) -> Task:
        if method is None and self.task is not Task.numeric:
            return self.task
        if method is None or method == DEFAULT:
            return Task.numeric if is_number(answer_text(record, value)) else Task.text
        task = METHODS.get(method) if isinstance(method, str) else None
        if task is None:
            known = ", ".join((DEFAULT, *METHODS))
            problem = f"accu_reward_method {method!r} has no counterpart here"
            raise record.error(problem, f"use one of {known}; {REWARDS}")
        return task
