"""True boxes and the categories asked for, as they stand in a user's own row."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from groundrl.data.refcoco_json import BoxOrder
from groundrl.data.targets import merge_targets
from groundrl.errors import DataError
from groundrl.geometry.labels import normalise_label
from groundrl.types import XYXY, LabeledBox, Task

Refuse = Callable[[str, str], DataError]
"""The error of a row, from what is wrong and what to do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Located:
    """`merged`: targets that are one category were merged."""

    boxes: tuple[LabeledBox, ...]
    targets: tuple[str, ...] = ()
    merged: bool = False


def read_located(
    task: Task,
    boxes: Any,
    targets: Any,
    refuse: Refuse,
    *,
    order: BoxOrder = BoxOrder.xyxy,
    boxes_key: str = "boxes",
    targets_key: str = "targets",
) -> Located:
    """The truth of a row of rec, point (one box or more) or ovd (targets, and boxes with their labels).

    Raises the DataError that `refuse` makes for anything else.
    """
    if not isinstance(boxes, list):
        raise refuse(f"`{boxes_key}` must be a list (empty when nothing is there)", "see docs/howto/data.md")
    parsed = tuple(_box(box, order, refuse) for box in boxes)
    if task is not Task.ovd:
        if not parsed:
            raise refuse(
                f"`{boxes_key}` is empty, but a described object has its box", "see docs/howto/data.md"
            )
        return Located(boxes=parsed)
    if not isinstance(targets, list) or not targets or not all(isinstance(t, str) for t in targets):
        raise refuse(f"`{targets_key}` must be a list of category names", "see docs/howto/data.md")
    merged, dropped = merge_targets(targets)
    known = {normalise_label(target) for target in merged}
    for box in parsed:
        if normalise_label(box.label) not in known:
            raise refuse(f"label {box.label!r} is not among the targets", f"add it to `{targets_key}`")
    return Located(boxes=parsed, targets=merged, merged=dropped > 0)


def corners(value: Any, order: BoxOrder) -> XYXY | None:
    """(x1, y1, x2, y2) of a list of four numbers in `order`, or of the list under `bbox_2d`; else None.

    Whether x1 < x2 and y1 < y2 is not looked at.
    """
    raw: Any = value.get("bbox_2d") if isinstance(value, dict) else value
    if not isinstance(raw, list) or len(raw) != 4:
        return None
    if not all(isinstance(v, (int, float)) and not isinstance(v, bool) and math.isfinite(v) for v in raw):
        return None
    x, y, right, bottom = (float(v) for v in raw)
    return (x, y, x + right, y + bottom) if order is BoxOrder.xywh else (x, y, right, bottom)


def ordered(xyxy: XYXY) -> bool:
    """Whether x1 < x2 and y1 < y2."""
    return xyxy[0] < xyxy[2] and xyxy[1] < xyxy[3]


def _box(value: Any, order: BoxOrder, refuse: Refuse) -> LabeledBox:
    xyxy = corners(value, order)
    label: Any = value.get("label", "") if isinstance(value, dict) else ""
    if xyxy is None or not isinstance(label, str) or not ordered(xyxy):
        wanted = "[x, y, width, height] with width and height > 0"
        if order is BoxOrder.xyxy:
            wanted = "[x1, y1, x2, y2] with x1 < x2 and y1 < y2"
        raise refuse(f"box {value!r} is not {wanted}", 'write a list, or {"bbox_2d": [...], "label": "..."}')
    return LabeledBox(xyxy=xyxy, label=label)
