"""Boxes drawn into an image, for services that show plain images."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from PIL import Image, ImageDraw

from groundrl.tracking.base import Picture
from groundrl.tracking.pictures import drawn_boxes

if TYPE_CHECKING:
    from pathlib import Path

TRUTH = (20, 160, 70)
ANSWER = (235, 110, 20)


def drawing(picture: Picture, file: Path) -> Image.Image:
    """The RGB image in `file` with the true boxes in green and the answered ones, over them, in orange.

    Corners are continuous pixels: the box (x1, y1, x2, y2) covers the pixels x1 to x2 - 1. Raises OSError
    when the file cannot be read as an image.
    """
    with Image.open(file) as stored:
        image = stored.convert("RGB")
    pen = ImageDraw.Draw(image)
    width = max(1, round(max(image.size) / 250))
    for boxes, colour in ((picture.truth, TRUTH), (picture.boxes, ANSWER)):
        for box in drawn_boxes(boxes):
            x1, x2 = _inside(box.xyxy[0], box.xyxy[2], image.width)
            y1, y2 = _inside(box.xyxy[1], box.xyxy[3], image.height)
            pen.rectangle((x1, y1, x2, y2), outline=colour, width=width)
    return image


def _inside(start: float, end: float, size: int) -> tuple[int, int]:
    """First and last pixel of an edge, both inside the image."""
    first = math.floor(min(max(start, 0), size - 1))
    return first, math.ceil(min(max(end - 1, first), size - 1))
