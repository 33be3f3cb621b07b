"""Objects of a synthetic scene: where they stand and how they are drawn, to the pixel."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from PIL import Image, ImageDraw

from groundrl.types import XYXY

COLOURS: dict[str, tuple[int, int, int]] = {
    "red": (214, 40, 40),
    "green": (46, 160, 67),
    "blue": (38, 84, 214),
    "yellow": (240, 205, 40),
    "purple": (142, 58, 180),
    "orange": (240, 130, 30),
}
SHAPES = ("circle", "square", "triangle")
STRIPE = 8
"""Height of a stripe, pixels."""


class Ground(StrEnum):
    """What a scene is drawn on: plain grey, or stripes of two greys."""

    plain = "plain"
    stripes = "stripes"


@dataclass(frozen=True, slots=True, kw_only=True)
class SceneObject:
    """A shape whose drawn pixels fill `xyxy` (integers, half open) exactly."""

    colour: str
    shape: str
    xyxy: XYXY

    @property
    def name(self) -> str:
        return f"{self.colour} {self.shape}"

    @property
    def centre(self) -> tuple[float, float]:
        x1, y1, x2, y2 = self.xyxy
        return (x1 + x2) / 2, (y1 + y2) / 2


def place_objects(
    rng: np.random.Generator,
    *,
    count: int,
    image_size: int,
    size: tuple[int, int],
    grid: int,
    max_overlap: float,
    difficulty: float,
) -> list[SceneObject] | None:
    """`count` objects of which none covers more than `max_overlap` of a smaller one; None when they did
    not fit."""
    objects: list[SceneObject] = []
    for _ in range(count):
        for _ in range(20):
            xyxy = _random_box(rng, image_size, size, grid)
            if all(_covered(xyxy, other.xyxy) <= max_overlap for other in objects):
                break
        else:
            return None
        colour = str(rng.choice(list(COLOURS)))
        shape = str(rng.choice(SHAPES))
        if objects and rng.random() < difficulty:
            other = objects[int(rng.integers(len(objects)))]
            if rng.random() < 0.5:
                colour = other.colour
            else:
                shape = other.shape
        objects.append(SceneObject(colour=colour, shape=shape, xyxy=xyxy))
    return objects


def _covered(a: XYXY, b: XYXY) -> float:
    """Intersection as a share of the smaller box."""
    width = min(a[2], b[2]) - max(a[0], b[0])
    height = min(a[3], b[3]) - max(a[1], b[1])
    if width <= 0 or height <= 0:
        return 0.0
    smaller = min((box[2] - box[0]) * (box[3] - box[1]) for box in (a, b))
    return width * height / smaller


def _random_box(rng: np.random.Generator, image_size: int, size: tuple[int, int], grid: int) -> XYXY:
    side = int(rng.integers(-(-size[0] // grid), size[1] // grid + 1)) * grid
    x1 = int(rng.integers(0, (image_size - side) // grid + 1)) * grid
    y1 = int(rng.integers(0, (image_size - side) // grid + 1)) * grid
    return float(x1), float(y1), float(x1 + side), float(y1 + side)


def render(
    objects: list[SceneObject],
    image_size: int,
    noise: float,
    rng: np.random.Generator,
    kind: Ground = Ground.plain,
) -> Image.Image:
    """An RGB image of the scene: grey ground, flat shapes, Gaussian pixel noise."""
    ground = int(rng.integers(90, 200))
    image = Image.new("RGB", (image_size, image_size), (ground, ground, ground))
    draw = ImageDraw.Draw(image)
    if kind is Ground.stripes:
        other = ground + (60 if ground < 145 else -60)
        for top in range(0, image_size, 2 * STRIPE):
            draw.rectangle([0, top, image_size - 1, top + STRIPE - 1], fill=(other, other, other))
    for item in objects:
        x1, y1, x2, y2 = (int(v) for v in item.xyxy)
        box = [x1, y1, x2 - 1, y2 - 1]
        fill = COLOURS[item.colour]
        if item.shape == "circle":
            draw.ellipse(box, fill=fill)
        elif item.shape == "square":
            draw.rectangle(box, fill=fill)
        else:
            draw.polygon([(x1, y2 - 1), (x2 - 1, y2 - 1), ((x1 + x2 - 1) // 2, y1)], fill=fill)
    if noise == 0:
        return image
    pixels = np.asarray(image, dtype=np.float32)
    pixels = pixels + rng.normal(0.0, noise, size=pixels.shape).astype(np.float32)
    return Image.fromarray(np.clip(np.rint(pixels), 0, 255).astype(np.uint8))
