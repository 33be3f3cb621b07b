"""Synthetic tables to be read and counted: `dataset=tables`, a toy twin of TableVQA.

Rows and columns of coloured cells, each with some dots, counted from 1 at the top left.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
from PIL import ImageDraw

from groundrl.config.registry import register
from groundrl.data.base import Split
from groundrl.data.drawn import INK, Drawn, DrawnConfig, Question, check_questions
from groundrl.data.scene import COLOURS
from groundrl.data.world import check_pair
from groundrl.errors import ConfigError
from groundrl.types import XYXY, LabeledBox

LEAST_CELL = 28
"""Least side of a cell, pixels: below, its dots run together."""
DOT = 3
"""Radius of a dot, pixels."""
PLACES = ((0.3, 0.3), (0.7, 0.7), (0.7, 0.3), (0.3, 0.7))
"""Where the dots of a cell stand, as shares of its sides: the first so many."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One cell, rows and columns from 1: its colour, its dots, the pixels it fills (half open)."""

    row: int
    column: int
    colour: str
    dots: int
    xyxy: XYXY


@register("dataset", "tables")
@dataclass(kw_only=True, slots=True)
class TableConfig(DrawnConfig):
    """Settings of tables.

    rows, columns  [min, max] number
    questions      dots: how many in one cell; colour: of one cell; cells: how many of a colour
    """

    KINDS: ClassVar[tuple[str, ...]] = ("dots", "colour", "cells")

    rows: list[int] = field(default_factory=lambda: [2, 3])
    columns: list[int] = field(default_factory=lambda: [2, 3])
    questions: dict[str, float] = field(default_factory=lambda: {"dots": 0.4, "colour": 0.3, "cells": 0.3})

    def __post_init__(self) -> None:
        DrawnConfig.__post_init__(self)
        check_questions(self.questions, self.KINDS)
        for key in ("rows", "columns"):
            pair: list[int] = getattr(self, key)
            check_pair(key, pair, 1)
            if self.image_size // pair[1] < LEAST_CELL:
                problem = f"a cell needs {LEAST_CELL} pixels of the image's {self.image_size}"
                raise ConfigError(key, problem, got=list(pair), todo="lower it or raise image_size")

    def build(self, split: Split) -> Tables:
        return Tables(self, split)


class Tables(Drawn[TableConfig, Cell]):
    """The tables of one split."""

    name = "tables"
    version = "tables-1"

    def place(self, rng: np.random.Generator) -> list[Cell]:
        config = self.config
        rows = int(rng.integers(config.rows[0], config.rows[1] + 1))
        columns = int(rng.integers(config.columns[0], config.columns[1] + 1))
        height, width = config.image_size // rows, config.image_size // columns
        return [
            Cell(
                row=row + 1,
                column=column + 1,
                colour=list(COLOURS)[int(rng.integers(len(COLOURS)))],
                dots=int(rng.integers(0, len(PLACES) + 1)),
                xyxy=(column * width, row * height, (column + 1) * width, (row + 1) * height),
            )
            for row in range(rows)
            for column in range(columns)
        ]

    def paint(self, draw: ImageDraw.ImageDraw, parts: list[Cell]) -> None:
        for cell in parts:
            x1, y1, x2, y2 = cell.xyxy
            draw.rectangle((x1, y1, x2 - 1, y2 - 1), fill=COLOURS[cell.colour], outline=INK)
            for across, down in PLACES[: cell.dots]:
                x, y = x1 + across * (x2 - x1), y1 + down * (y2 - y1)
                draw.ellipse((x - DOT, y - DOT, x + DOT, y + DOT), fill=INK)

    def ask(self, kind: str, rng: np.random.Generator, parts: list[Cell]) -> Question | None:
        cell = parts[int(rng.integers(len(parts)))]
        if kind == "cells":
            seen = tuple(_seen(one) for one in parts if one.colour == cell.colour)
            return Question(text=f"How many cells are {cell.colour}?", answer=str(len(seen)), evidence=seen)
        where = f"row {cell.row}, column {cell.column}"
        if kind == "dots":
            return Question(
                text=f"How many dots are in {where}?", answer=str(cell.dots), evidence=(_seen(cell),)
            )
        return Question(text=f"Which colour has {where}?", answer=cell.colour, evidence=(_seen(cell),))


def _seen(cell: Cell) -> LabeledBox:
    return LabeledBox(xyxy=cell.xyxy, label=cell.colour)
