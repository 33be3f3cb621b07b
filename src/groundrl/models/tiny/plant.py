"""Faults planted on purpose in the tiny checkpoint, so that reinforcement has something to find.

REC: every box is too loose by a random factor. OVD: false boxes for absent categories and repeated boxes.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from groundrl.types import XYXY, Sample


@dataclass(frozen=True, slots=True, kw_only=True)
class Faults:
    """loose: (min, max) factor on a REC box's sides; shift: its centre's shift as a share of the side;
    false: chance of a false box per absent OVD category; repeat: chance that a box is written twice."""

    loose: tuple[float, float] | None = None
    shift: float = 0.0
    false: float = 0.0
    repeat: float = 0.0


CLEAN = Faults()


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


def pollute(
    sample: Sample, faults: Faults, grid: int, side: int, rng: np.random.Generator
) -> list[tuple[XYXY, str]]:
    """The OVD boxes of a sample with repeats and false boxes, in reading order of the targets."""
    boxes = [(box.xyxy, box.label) for box in sample.truth.boxes]
    boxes += [item for item in boxes if rng.random() < faults.repeat]
    present = {label for _, label in boxes}
    width, height = sample.images[0].size
    for name in sample.targets:
        if name not in present and rng.random() < faults.false:
            x = int(rng.integers(0, (width - side) // grid + 1)) * grid
            y = int(rng.integers(0, (height - side) // grid + 1)) * grid
            boxes.append(((float(x), float(y), float(x + side), float(y + side)), name))
    order = {name: index for index, name in enumerate(sample.targets)}
    return sorted(boxes, key=lambda item: (order[item[1]], item[0]))
