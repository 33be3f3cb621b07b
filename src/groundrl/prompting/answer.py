"""Writes the truth of a sample as the answer a perfect model would give: SFT targets and start-up checks."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from groundrl.types import LabeledBox, Task


def write_answer(task: Task, boxes: Sequence[LabeledBox], answer: str | None, think: str | None) -> str:
    """Think block (None: left out) and answer block.

    `boxes` are in the model's own space and rounded here.
    """
    block = "" if think is None else f"<think>{think}</think>"
    return f"{block}<answer>{_body(task, boxes, answer)}</answer>"


def _body(task: Task, boxes: Sequence[LabeledBox], answer: str | None) -> str:
    if task is Task.rec:
        return _json({"bbox_2d": _corners(boxes[0]), **_image(boxes[0])}) if boxes else "None"
    if task is Task.point:
        points = [{"point_2d": _centre(box), **_label(box), **_image(box)} for box in boxes]
        return _json(points[0] if len(points) == 1 else points) if points else "None"
    if task is Task.ovd:
        items = [{"bbox_2d": _corners(box), "label": box.label, **_image(box)} for box in boxes]
        return f"```json\n{_json(items)}\n```" if items else "None"
    return answer or ""


def _json(value: Any) -> str:
    """JSON in which a label cannot be taken for a tag of the answer."""
    return json.dumps(value, ensure_ascii=False).replace("<", "\\u003c")


def _corners(box: LabeledBox) -> list[int]:
    return [round(v) for v in box.xyxy]


def _centre(box: LabeledBox) -> list[int]:
    """Rounded down, so that it stays inside a box of at least one pixel."""
    x1, y1, x2, y2 = box.xyxy
    return [int((x1 + x2) / 2), int((y1 + y2) / 2)]


def _label(box: LabeledBox) -> dict[str, str]:
    return {"label": box.label} if box.label else {}


def _image(box: LabeledBox) -> dict[str, int]:
    """The first image is meant where none is named."""
    return {"image": box.image} if box.image else {}
