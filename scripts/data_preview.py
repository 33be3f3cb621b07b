"""Draws a contact sheet of a data set: images, truth boxes, and what is asked.

make data-preview OVERRIDES="dataset=shapes_ovd dataset.difficulty=0.8"
"""

from __future__ import annotations

import sys
import textwrap
from pathlib import Path

from PIL import Image, ImageDraw, ImageFont

from groundrl.config.compose import compose_run
from groundrl.config.entry import guard
from groundrl.data.base import Split
from groundrl.types import Sample

COLUMNS, ROWS, CELL, CAPTION = 6, 4, 224, 52
OUT = Path("outputs/data-preview.png")


def draw_cell(sample: Sample) -> Image.Image:
    """One sample, scaled to CELL, with its truth boxes and question below."""
    image = sample.images[0].convert("RGB")
    scale = CELL / max(image.size)
    cell = Image.new("RGB", (CELL, CELL + CAPTION), "white")
    size = (round(image.width * scale), round(image.height * scale))
    cell.paste(image.resize(size, Image.Resampling.NEAREST))
    pen = ImageDraw.Draw(cell)
    for box in sample.truth.boxes:
        pen.rectangle([value * scale for value in box.xyxy], outline="white", width=3)
        pen.rectangle([value * scale for value in box.xyxy], outline="black", width=1)
    asked = sample.question or "; ".join(sample.targets)
    if not sample.truth.boxes:
        asked += "  (None)"
    text = "\n".join(textwrap.wrap(asked, 38)[:3])
    pen.text((4, CELL + 4), text, fill="black", font=ImageFont.load_default(size=12))
    return cell


def main(words: list[str]) -> int:
    source = compose_run(words).dataset.build(Split.TRAIN)
    count = min(COLUMNS * ROWS, source.size or COLUMNS * ROWS)
    sheet = Image.new("RGB", (COLUMNS * (CELL + 8), ROWS * (CELL + CAPTION + 8)), "#cccccc")
    for index in range(count):
        row, column = divmod(index, COLUMNS)
        cell = draw_cell(source.sample(index))
        sheet.paste(cell, (column * (CELL + 8) + 4, row * (CELL + CAPTION + 8) + 4))
    OUT.parent.mkdir(parents=True, exist_ok=True)
    sheet.save(OUT)
    print(OUT)
    return 0


if __name__ == "__main__":
    sys.exit(guard(main, sys.argv[1:]))
