"""Samples of one small picture each, that count how often they are opened."""

from __future__ import annotations

from PIL import Image

from groundrl.types import LabeledBox, Sample, Task, Truth


class Pictures:
    def __init__(self, size: int | None) -> None:
        self.size = size
        self.opened = 0

    def sample(self, index: int) -> Sample:
        self.opened += 1
        truth = Truth(boxes=(LabeledBox(xyxy=(0, 0, 10, 10)),))
        image = Image.new("RGB", (56, 56), (index, 0, 0))
        return Sample(id=str(index), task=Task.rec, images=(image,), truth=truth, question="x")

    def tasks(self) -> frozenset[Task]:
        return frozenset({Task.rec})

    def fingerprint(self) -> str:
        return "pictures"
