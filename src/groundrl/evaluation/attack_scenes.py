"""Random scenes without pictures, each with answers of known quality for attacks to start from."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from groundrl.rewards.attacks import Asked
from groundrl.types import XYXY, ImageFrame, LabeledBox, Sample, Size, Task, Truth

SIZES: tuple[Size, ...] = ((112, 112), (320, 240), (448, 448), (640, 480), (1000, 600))
WORDS = (
    "person", "bicycle", "dog", "traffic light", "cup", "red car", "laptop", "chair", "kite", "zebra",
    "white plate", "umbrella",
)  # fmt: skip
TARGETS = 8
MOST_OBJECTS = 6
MOST_LABELS = 4
NEGATIVES = 0.15
MISSED = 0.2
FALSE_BOXES = 2
FALSE = 0.35


class Base(StrEnum):
    """What an attack starts from.

    exact    the truth
    noisy    boxes shifted to an IoU of 0.5 to 0.9, a fifth of them missed, up to two false ones, in random
             order (referring expressions: the shifted box)
    partial  half of the true boxes, rounded up (detection only)
    """

    EXACT = "exact"
    NOISY = "noisy"
    PARTIAL = "partial"


@dataclass(frozen=True, slots=True, kw_only=True)
class AttackScene:
    """A sample without images, its frame, and an answer of each quality, in pixels of the original image."""

    sample: Sample
    frame: ImageFrame
    answers: Mapping[Base, tuple[LabeledBox, ...]]

    @property
    def asked(self) -> Asked:
        return Asked(task=self.sample.task, targets=self.sample.targets, size=self.frame.original)


def random_box(size: Size, rng: np.random.Generator) -> XYXY:
    """A box of whole pixels, its sides 10 to 50 % of the image's."""
    width, height = size
    w = int(rng.integers(round(0.1 * width), round(0.5 * width) + 1))
    h = int(rng.integers(round(0.1 * height), round(0.5 * height) + 1))
    x, y = int(rng.integers(0, width - w + 1)), int(rng.integers(0, height - h + 1))
    return (float(x), float(y), float(x + w), float(y + h))


def shifted(xyxy: XYXY, iou: float, rng: np.random.Generator) -> XYXY:
    """The box moved along a diagonal until its IoU with itself is `iou`; it may reach beyond the image.

    Moved by the share s of both sides, the overlap is o = (1 - s)^2 of the area and IoU = o / (2 - o).
    """
    share = 1 - math.sqrt(2 * iou / (1 + iou))
    x1, y1, x2, y2 = xyxy
    signs = rng.choice([-1, 1], size=2)
    dx, dy = float(signs[0]) * share * (x2 - x1), float(signs[1]) * share * (y2 - y1)
    return (x1 + dx, y1 + dy, x2 + dx, y2 + dy)


def make_scenes(task: Task, count: int, *, seed: int) -> list[AttackScene]:
    """`count` scenes of detection or referring expressions, a function of the arguments.

    Detection: eight targets, 0 to 6 objects of 1 to 4 of them, about 15 % without any object. Referring
    expressions: one object.
    """
    return [_scene(task, index, np.random.default_rng([seed, index])) for index in range(count)]


def _scene(task: Task, index: int, rng: np.random.Generator) -> AttackScene:
    size = SIZES[int(rng.integers(len(SIZES)))]
    targets: tuple[str, ...] = ()
    truths = (LabeledBox(xyxy=random_box(size, rng)),)
    if task is Task.ovd:
        targets = tuple(str(word) for word in rng.permutation(WORDS)[:TARGETS])
        truths = _objects(targets, size, rng)
    noisy = _noisy(truths, targets, size, rng)
    answers = {Base.EXACT: truths, Base.NOISY: noisy}
    if task is Task.ovd:
        answers[Base.PARTIAL] = truths[: (len(truths) + 1) // 2]
    sample = Sample(id=f"{index}", task=task, images=(), truth=Truth(boxes=truths), targets=targets)
    return AttackScene(sample=sample, frame=ImageFrame(original=size, processed=size), answers=answers)


def _objects(targets: tuple[str, ...], size: Size, rng: np.random.Generator) -> tuple[LabeledBox, ...]:
    if rng.random() < NEGATIVES:
        return ()
    count = int(rng.integers(1, MOST_OBJECTS + 1))
    labels = targets[: int(rng.integers(1, min(MOST_LABELS, count) + 1))]
    return tuple(
        LabeledBox(xyxy=random_box(size, rng), label=labels[int(rng.integers(len(labels)))])
        for _ in range(count)
    )


def _noisy(
    truths: tuple[LabeledBox, ...], targets: tuple[str, ...], size: Size, rng: np.random.Generator
) -> tuple[LabeledBox, ...]:
    if not targets:
        return tuple(LabeledBox(xyxy=shifted(true.xyxy, rng.uniform(0.5, 0.9), rng)) for true in truths)
    found = [
        LabeledBox(xyxy=shifted(true.xyxy, rng.uniform(0.5, 0.9), rng), label=true.label)
        for true in truths
        if rng.random() >= MISSED
    ]
    false = [
        LabeledBox(xyxy=random_box(size, rng), label=targets[int(rng.integers(len(targets)))])
        for _ in range(FALSE_BOXES)
        if rng.random() < FALSE
    ]
    boxes = found + false
    return tuple(boxes[place] for place in rng.permutation(len(boxes)).tolist())
