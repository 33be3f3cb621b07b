"""Answers as rows of a W&B table, their boxes over the image."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Any

from groundrl.tracking.base import Picture
from groundrl.tracking.pictures import drawn_boxes, plain
from groundrl.tracking.redact import redact
from groundrl.types import LabeledBox

logger = logging.getLogger(__name__)

COLUMNS = (
    "step", "phase", "sample", "question", "image", "kind", "answer", "parse_status", "reward", "tokens",
    "true_boxes", "boxes",
)  # fmt: skip
CLASSES = {1: "truth", 2: "answer"}


def row(picture: Picture, image: Callable[..., Any]) -> list[Any]:
    """The cells of `COLUMNS`; `image` is `wandb.Image`. One that cannot be read leaves its cell empty."""
    return [
        picture.step,
        picture.phase,
        plain(picture.sample_id),
        redact(plain(picture.question)),
        _image(picture, image),
        picture.kind,
        redact(plain(picture.text)),
        picture.parse_status,
        picture.reward,
        picture.tokens,
        len(picture.truth),
        len(picture.boxes),
    ]


def _image(picture: Picture, image: Callable[..., Any]) -> Any:
    if picture.image is None:
        return None
    boxes = {"truth": _boxes(picture.truth, 1), "answer": _boxes(picture.boxes, 2)}
    try:
        return image(str(picture.image), boxes=boxes)
    except OSError as error:
        logger.warning("the image of %s is not shown in W&B (%s)", picture.sample_id, error)
        return None


def _boxes(boxes: Sequence[LabeledBox], number: int) -> dict[str, Any]:
    """W&B's form: corners in pixels, the class (truth or answer) and the label as caption."""
    data = [
        {
            "position": dict(zip(("minX", "minY", "maxX", "maxY"), box.xyxy, strict=True)),
            "domain": "pixel",
            "class_id": number,
            "box_caption": box.label or CLASSES[number],
        }
        for box in drawn_boxes(boxes)
    ]
    return {"box_data": data, "class_labels": CLASSES}
