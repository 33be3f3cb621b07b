"""What of the gallery goes to outside services: pictures with boxes, a bounded number a run."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from groundrl.tracking.base import EVAL, Picture
from groundrl.types import XYXY, LabeledBox

MOST_BOXES = 60
MOST_CHARS = 4000


@dataclass(frozen=True, slots=True, kw_only=True)
class DrawnBox:
    """A box to draw: finite corners in original pixels, ordered; a label that is valid UTF-8."""

    xyxy: XYXY
    label: str


def drawn_boxes(boxes: Sequence[LabeledBox]) -> list[DrawnBox]:
    """The first 60 boxes that can be drawn, corners in order; those that are not finite are left out."""
    found: list[DrawnBox] = []
    for box in boxes:
        x1, y1, x2, y2 = (float(edge) for edge in box.xyxy)
        if all(map(math.isfinite, (x1, y1, x2, y2))):
            ordered = (min(x1, x2), min(y1, y2), max(x1, x2), max(y1, y2))
            found.append(DrawnBox(xyxy=ordered, label=plain(box.label or "")))
        if len(found) == MOST_BOXES:
            break
    return found


def plain(text: str) -> str:
    """`text` that can be written as UTF-8, at most 4000 characters of it."""
    cut = text if len(text) <= MOST_CHARS else f"{text[:MOST_CHARS]} ... ({len(text)} characters)"
    return cut.encode("utf-8", "replace").decode("utf-8")


class PictureBudget:
    """Which pictures a run sends: at most `most` in all, the last evaluation among them.

    Room for one more evaluation is kept free. An evaluation that would use it is held back, replaced by a
    later one, and given out by `last`; training groups that would use it are dropped. `sent` is the number
    that an earlier part of the run sent.
    """

    def __init__(self, most: int, sent: int = 0) -> None:
        self.most = most
        self.sent = sent
        self._held: list[Picture] = []
        self._reserve = 0

    def admit(self, pictures: Sequence[Picture]) -> list[Picture]:
        """Those of one step and phase to send now: all or none."""
        evaluated = bool(pictures) and pictures[0].phase == EVAL
        if evaluated:
            self._reserve = len(pictures)
        if self.sent + len(pictures) + self._reserve <= self.most:
            self._held = [] if evaluated else self._held
            self.sent += len(pictures)
            return list(pictures)
        if evaluated:
            self._held = list(pictures)
        return []

    def last(self) -> list[Picture]:
        """What was held back, as far as there is room."""
        given = self._held[: max(0, self.most - self.sent)]
        self._held = []
        self.sent += len(given)
        return given
