"""Writes the truth of a sample as the answer a perfect model would give: SFT targets and start-up checks."""

from __future__ import annotations

import json
from collections.abc import Sequence

from groundrl.types import XYXY, Task


def write_answer(task: Task, boxes: Sequence[tuple[XYXY, str]], answer: str | None, think: str) -> str:
    """Think block and answer block. `boxes` are (xyxy, label) in the model's own space, rounded here."""
    return f"<think>{think}</think><answer>{_body(task, boxes, answer)}</answer>"


def _body(task: Task, boxes: Sequence[tuple[XYXY, str]], answer: str | None) -> str:
    if task is Task.rec:
        if not boxes:
            return "None"
        return json.dumps({"bbox_2d": [round(v) for v in boxes[0][0]]})
    if task is Task.ovd:
        if not boxes:
            return "None"
        items = [{"bbox_2d": [round(v) for v in xyxy], "label": label} for xyxy, label in boxes]
        return f"```json\n{json.dumps(items, ensure_ascii=False)}\n```"
    return answer or ""
