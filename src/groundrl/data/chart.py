"""Synthetic bar charts to be read and counted: `dataset=charts`, a toy twin of ChartQA.

Bars of different colours end on lines of equal distance, so that a value is a number of lines. Half of the
charts stand, half lie.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
from PIL import ImageDraw

from groundrl.config.registry import register
from groundrl.data.base import Split
from groundrl.data.drawn import INK, LINE, Drawn, DrawnConfig, Question, check_questions
from groundrl.data.scene import COLOURS
from groundrl.data.world import check_pair
from groundrl.errors import ConfigError
from groundrl.types import XYXY, LabeledBox

LEVEL = 14
"""Distance of two lines, pixels."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """One bar: its colour, its value in lines, the pixels it fills (half open)."""

    colour: str
    value: int
    xyxy: XYXY


@register("dataset", "charts")
@dataclass(kw_only=True, slots=True)
class ChartConfig(DrawnConfig):
    """Settings of bar charts.

    bars       [min, max] number of bars
    questions  count: how many bars; value: how long one is; longest, shortest: which one, by colour;
               longer: how much longer one is than another
    """

    KINDS: ClassVar[tuple[str, ...]] = ("count", "value", "longest", "shortest", "longer")

    bars: list[int] = field(default_factory=lambda: [2, 5])
    questions: dict[str, float] = field(
        default_factory=lambda: {"count": 0.2, "value": 0.5, "longest": 0.15, "shortest": 0.15, "longer": 0.0}
    )

    def __post_init__(self) -> None:
        DrawnConfig.__post_init__(self)
        check_questions(self.questions, self.KINDS)
        check_pair("bars", self.bars, 1)
        most = min(len(COLOURS), self.image_size // LEVEL - 2)
        if self.bars[1] > most:
            problem = f"at most {most} bars fit (colours, and {LEVEL} pixels a bar)"
            raise ConfigError("bars", problem, got=list(self.bars), todo="lower it")

    def build(self, split: Split) -> Charts:
        return Charts(self, split)


class Charts(Drawn[ChartConfig, Bar]):
    """The charts of one split."""

    name = "charts"
    version = "charts-1"

    @property
    def levels(self) -> int:
        """The largest value: lines on the picture, a margin left at either end."""
        return self.config.image_size // LEVEL - 2

    def place(self, rng: np.random.Generator) -> list[Bar]:
        count = int(rng.integers(self.config.bars[0], self.config.bars[1] + 1))
        colours = [list(COLOURS)[i] for i in rng.choice(len(COLOURS), size=count, replace=False)]
        upright = bool(rng.random() < 0.5)
        width = self.config.image_size // (count + 1)
        bars: list[Bar] = []
        for number, colour in enumerate(colours):
            value = int(rng.integers(1, self.levels + 1))
            first = width // 2 + number * width
            across = (first + width // 8, first + width - width // 8)
            base = self.config.image_size - LEVEL
            along = (base - value * LEVEL, base) if upright else (LEVEL, LEVEL + value * LEVEL)
            low, high = (across, along) if upright else (along, across)
            xyxy = (float(low[0]), float(high[0]), float(low[1]), float(high[1]))
            bars.append(Bar(colour=colour, value=value, xyxy=xyxy))
        return bars

    def paint(self, draw: ImageDraw.ImageDraw, parts: list[Bar]) -> None:
        side = self.config.image_size
        base = side - LEVEL
        upright = all(bar.xyxy[3] == base for bar in parts)
        for level in range(self.levels + 1):
            place = base - level * LEVEL if upright else LEVEL + level * LEVEL
            ends = (0, place, side, place) if upright else (place, 0, place, side)
            draw.line(ends, fill=INK if level == 0 else LINE)
        for bar in parts:
            x1, y1, x2, y2 = bar.xyxy
            draw.rectangle((x1, y1, x2 - 1, y2 - 1), fill=COLOURS[bar.colour])

    def ask(self, kind: str, rng: np.random.Generator, parts: list[Bar]) -> Question | None:
        if kind == "count":
            seen = tuple(LabeledBox(xyxy=bar.xyxy, label=bar.colour) for bar in parts)
            return Question(text="How many bars are there?", answer=str(len(parts)), evidence=seen)
        if kind == "value":
            bar = parts[int(rng.integers(len(parts)))]
            return _about([bar], f"How long is the {bar.colour} bar?", str(bar.value))
        if kind == "longer":
            if len(parts) < 2:
                return None
            first, second = (parts[i] for i in rng.choice(len(parts), size=2, replace=False))
            long, short = (first, second) if first.value >= second.value else (second, first)
            text = f"How much longer is the {long.colour} bar than the {short.colour} bar?"
            return _about([long, short], text, str(long.value - short.value))
        values = [bar.value for bar in parts]
        wanted = max(values) if kind == "longest" else min(values)
        if values.count(wanted) > 1:
            return None
        bar = parts[values.index(wanted)]
        return _about([bar], f"Which bar is the {kind}?", bar.colour)


def _about(bars: list[Bar], text: str, answer: str) -> Question:
    seen = tuple(LabeledBox(xyxy=bar.xyxy, label=bar.colour) for bar in bars)
    return Question(text=text, answer=answer, evidence=seen)
