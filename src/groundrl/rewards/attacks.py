"""What a policy may write to be paid without looking: perturbations of an answer, for testing rewards.

An answer is a sequence of items as they stand in its JSON. An attack changes the items of a given answer, or
ignores them; it knows what the policy knows (the targets, the size of the image), never the truth. The text
around the items stays well formed, so a difference in reward is due to the attack alone.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

import numpy as np

from groundrl.types import XYXY, LabeledBox, Size, Task

Items = tuple[object, ...]
"""JSON values; no items stand for "None"."""

Labels = Sequence[str | None]
"""What boxes may be labelled: the targets, or one None where the task has no labels."""

GRID = 3
COPIES = 3
COPY_SHIFT = 0.02
UNASKED = ("unicorn", "gryphon", "basilisk")


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What the policy was shown: the task, the targets (detection only), width and height in pixels."""

    task: Task
    targets: tuple[str, ...]
    size: Size

    @property
    def labels(self) -> Labels:
        return self.targets if self.task is Task.ovd else (None,)


class Attack(Protocol):
    """From an answer's items to those of the attack. A pure function of its arguments and the generator."""

    def __call__(self, asked: Asked, items: Items, rng: np.random.Generator) -> Items: ...


class AttackName(StrEnum):
    """Attacks by name.

    claim_all        a box at random for every target that the answer does not name, at the end
    whole_image      nothing but the whole image, once per target
    grid             nothing but the cells of a 3 x 3 grid, each once per target
    grid_added       the answer, then `grid`; "None" stays, so that the boxes cost nothing on an empty image
    exact_copies     the answer, then all its items three times more
    jittered_copies  the answer, then three copies of each box that overlap it with IoU > 0.9
    unknown_labels   the answer, then its boxes under labels that nobody asked for
    reordered        the items in random order
    always_none      "None"
    malformed        the answer, then items that no parser can accept
    several_boxes    the box, then a jittered copy and the whole image
    centre_box       nothing but a box around the centre, half as wide and high as the image
    """

    CLAIM_ALL = "claim_all"
    WHOLE_IMAGE = "whole_image"
    GRID = "grid"
    GRID_ADDED = "grid_added"
    EXACT_COPIES = "exact_copies"
    JITTERED_COPIES = "jittered_copies"
    UNKNOWN_LABELS = "unknown_labels"
    REORDERED = "reordered"
    ALWAYS_NONE = "always_none"
    MALFORMED = "malformed"
    SEVERAL_BOXES = "several_boxes"
    CENTRE_BOX = "centre_box"


def item(xyxy: Sequence[float], label: str | None) -> dict[str, object]:
    """One item; coordinates rounded to two decimals, no label where it is None."""
    written: dict[str, object] = {"bbox_2d": [round(value, 2) for value in xyxy]}
    if label is not None:
        written["label"] = label
    return written


def items_of(task: Task, boxes: Iterable[LabeledBox]) -> Items:
    """Boxes as the items of an answer; labels are left out where the task has none."""
    return tuple(item(box.xyxy, box.label if task is Task.ovd else None) for box in boxes)


def written(task: Task, items: Items) -> str:
    """The completion that holds `items`: a thought, then the answer in the form the task asks for."""
    body = "None"
    if task is Task.ovd and items:
        body = f"```json\n{json.dumps(items)}\n```"
    elif items:
        body = json.dumps(items[0] if len(items) == 1 else items)
    return f"<think>I look at the image.</think><answer>{body}</answer>"


def jittered(xyxy: XYXY, size: Size, rng: np.random.Generator) -> XYXY:
    """The box with each side moved by at most 2 % of the box and kept inside the image.

    Along an axis the overlap is at least 0.96 of the union, so IoU >= 0.96^2 = 0.9216 before rounding.
    """
    x1, y1, x2, y2 = xyxy
    reach = np.array([x2 - x1, y2 - y1, x2 - x1, y2 - y1]) * COPY_SHIFT
    moved = np.array(xyxy) + rng.uniform(-1.0, 1.0, size=4) * reach
    low = np.clip(moved, 0.0, np.array([*size, *size], dtype=np.float64)).tolist()
    return (low[0], low[1], low[2], low[3])


def _read(items: Items) -> list[tuple[XYXY, str | None]]:
    """The boxes among `items` that `item` wrote."""
    found: list[tuple[XYXY, str | None]] = []
    for one in items:
        if isinstance(one, Mapping) and isinstance(one.get("bbox_2d"), list):
            x1, y1, x2, y2 = one["bbox_2d"]
            found.append(((x1, y1, x2, y2), one.get("label")))
    return found


def _random_box(size: Size, rng: np.random.Generator) -> XYXY:
    shares = rng.uniform(0.1, 0.5, size=2)
    corner = rng.uniform(0.0, 1.0, size=2) * (1.0 - shares)
    width, height = size
    x1, y1 = corner[0] * width, corner[1] * height
    return (x1, y1, x1 + shares[0] * width, y1 + shares[1] * height)


def claim_all(asked: Asked, items: Items, rng: np.random.Generator) -> Items:
    named = {label for _, label in _read(items)}
    missing = [label for label in asked.labels if label not in named]
    return (*items, *(item(_random_box(asked.size, rng), label) for label in missing))


def whole_image(asked: Asked, items: Items, rng: np.random.Generator) -> Items:
    return tuple(item((0, 0, *asked.size), label) for label in asked.labels)


def grid(asked: Asked, items: Items, rng: np.random.Generator) -> Items:
    width, height = asked.size[0] / GRID, asked.size[1] / GRID
    cells = [(x * width, y * height) for y in range(GRID) for x in range(GRID)]
    return tuple(item((x, y, x + width, y + height), label) for label in asked.labels for x, y in cells)


def grid_added(asked: Asked, items: Items, rng: np.random.Generator) -> Items:
    return (*items, *grid(asked, items, rng)) if items else ()


def exact_copies(asked: Asked, items: Items, rng: np.random.Generator) -> Items:
    return items * (1 + COPIES)


def jittered_copies(asked: Asked, items: Items, rng: np.random.Generator) -> Items:
    boxes = _read(items) * COPIES
    return (*items, *(item(jittered(xyxy, asked.size, rng), label) for xyxy, label in boxes))


def unknown_labels(asked: Asked, items: Items, rng: np.random.Generator) -> Items:
    boxes = _read(items)
    return (*items, *(item(xyxy, UNASKED[index % len(UNASKED)]) for index, (xyxy, _) in enumerate(boxes)))


def reordered(asked: Asked, items: Items, rng: np.random.Generator) -> Items:
    return tuple(items[index] for index in rng.permutation(len(items)).tolist())


def always_none(asked: Asked, items: Items, rng: np.random.Generator) -> Items:
    return ()


def malformed(asked: Asked, items: Items, rng: np.random.Generator) -> Items:
    label = asked.labels[0]
    swapped, short, flat = item((9, 9, 1, 1), label), item((1, 2, 3), label), item((5, 5, 5, 9), label)
    return (*items, swapped, short, flat, {"label": label}, "a box", None)


def several_boxes(asked: Asked, items: Items, rng: np.random.Generator) -> Items:
    copies = tuple(item(jittered(xyxy, asked.size, rng), label) for xyxy, label in _read(items))
    return (*items, *copies, *whole_image(asked, items, rng))


def centre_box(asked: Asked, items: Items, rng: np.random.Generator) -> Items:
    width, height = asked.size
    box = (width / 4, height / 4, width * 3 / 4, height * 3 / 4)
    return tuple(item(box, label) for label in asked.labels)


_DETECTION: Mapping[AttackName, Attack] = {
    AttackName.CLAIM_ALL: claim_all,
    AttackName.WHOLE_IMAGE: whole_image,
    AttackName.GRID: grid,
    AttackName.GRID_ADDED: grid_added,
    AttackName.EXACT_COPIES: exact_copies,
    AttackName.JITTERED_COPIES: jittered_copies,
    AttackName.UNKNOWN_LABELS: unknown_labels,
    AttackName.REORDERED: reordered,
    AttackName.ALWAYS_NONE: always_none,
    AttackName.MALFORMED: malformed,
}
_REFERRING: Mapping[AttackName, Attack] = {
    AttackName.SEVERAL_BOXES: several_boxes,
    AttackName.WHOLE_IMAGE: whole_image,
    AttackName.CENTRE_BOX: centre_box,
    AttackName.ALWAYS_NONE: always_none,
    AttackName.MALFORMED: malformed,
}
ATTACKS: Mapping[Task, Mapping[AttackName, Attack]] = {Task.ovd: _DETECTION, Task.rec: _REFERRING}
"""The attacks on an answer of each task."""

BLIND = frozenset({AttackName.WHOLE_IMAGE, AttackName.GRID, AttackName.CENTRE_BOX, AttackName.ALWAYS_NONE})
"""Attacks whose answer depends neither on the image nor on the answer they replace."""
