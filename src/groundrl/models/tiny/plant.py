"""Faults planted on purpose in the tiny checkpoint, so that reinforcement has something to find.

REC: every box is too loose by a random factor, or some of its sides by a grid step. OVD: false boxes for
absent categories, and several attempts at one object. Both: answers without the asked-for format.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from groundrl.types import XYXY, LabeledBox, Sample


@dataclass(frozen=True, slots=True, kw_only=True)
class Faults:
    """loose: (min, max) factor on a REC box's sides; shift: its centre's shift as a share of the side;
    outward: chance that a side of a REC box lies one grid step further out; false: chance of a false box per
    absent OVD category; repeat: chance that an OVD object gets one more attempt, again and again up to
    MOST_ATTEMPTS; bare: chance of an answer without its think and answer tags; misread: by the kind of a
    question (the sample's source), chance of a wrong text answer (`verdicts.misread`)."""

    loose: tuple[float, float] | None = None
    shift: float = 0.0
    outward: float = 0.0
    false: float = 0.0
    repeat: float = 0.0
    bare: float = 0.0
    misread: Mapping[str, float] = field(default_factory=dict[str, float])


CLEAN = Faults()
MOST_ATTEMPTS = 4


def loosen(box: XYXY, image: tuple[int, int], faults: Faults, rng: np.random.Generator) -> XYXY:
    """A REC box scaled about a shifted centre, clipped to the image."""
    if faults.loose is None:
        return box
    w, h = box[2] - box[0], box[3] - box[1]
    cx = (box[0] + box[2]) / 2 + rng.uniform(-1, 1) * faults.shift * w
    cy = (box[1] + box[3]) / 2 + rng.uniform(-1, 1) * faults.shift * h
    scale = rng.uniform(*faults.loose)
    w, h = w * scale, h * scale
    return (
        max(0.0, round(cx - w / 2)),
        max(0.0, round(cy - h / 2)),
        min(float(image[0]), round(cx + w / 2)),
        min(float(image[1]), round(cy + h / 2)),
    )


def step_out(box: XYXY, image: tuple[int, int], grid: int, chance: float, rng: np.random.Generator) -> XYXY:
    """A REC box of which each side lies one grid step further out with the given chance, inside the image."""
    out = [grid if rng.random() < chance else 0 for _ in range(4)]
    return (
        max(0.0, box[0] - out[0]),
        max(0.0, box[1] - out[1]),
        min(float(image[0]), box[2] + out[2]),
        min(float(image[1]), box[3] + out[3]),
    )


def pollute(
    sample: Sample, faults: Faults, grid: int, side: int, rng: np.random.Generator
) -> list[LabeledBox]:
    """The OVD boxes of a sample with further attempts and false boxes, in the order of the targets.

    A further attempt at an object repeats its box or is off by one grid step, with equal chance, so that a
    policy whose first box missed can hit with another.
    """
    width, height = sample.images[0].size
    boxes: list[tuple[XYXY, str]] = []
    for box in sample.truth.boxes:
        attempts = [box.xyxy]
        while rng.random() < faults.repeat and len(attempts) < MOST_ATTEMPTS:
            again = rng.random() < 0.5
            attempts.append(box.xyxy if again else _shifted(box.xyxy, grid, width, height, rng))
        boxes += [(attempt, box.label) for attempt in attempts]
    present = {label for _, label in boxes}
    for name in sample.targets:
        if name not in present and rng.random() < faults.false:
            x = int(rng.integers(0, (width - side) // grid + 1)) * grid
            y = int(rng.integers(0, (height - side) // grid + 1)) * grid
            boxes.append(((float(x), float(y), float(x + side), float(y + side)), name))
    order = {name: index for index, name in enumerate(sample.targets)}
    boxes.sort(key=lambda item: order[item[1]])
    return [LabeledBox(xyxy=xyxy, label=label) for xyxy, label in boxes]


def _shifted(box: XYXY, grid: int, width: int, height: int, rng: np.random.Generator) -> XYXY:
    """The box moved by one grid step in one or both directions, kept inside the image."""
    dx, dy = ((-1, 0), (1, 0), (0, -1), (0, 1), (1, 1), (-1, -1), (1, -1), (-1, 1))[int(rng.integers(8))]
    x = min(max(box[0] + dx * grid, 0.0), width - (box[2] - box[0]))
    y = min(max(box[1] + dy * grid, 0.0), height - (box[3] - box[1]))
    return x, y, x + box[2] - box[0], y + box[3] - box[1]
