"""Synthetic worlds of coloured shapes on grey, with exact boxes: `dataset=shapes_rec`, `shapes_ovd`, ...

rec and point ask for one described object, ovd for all objects of named categories, numeric for a count.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from groundrl.config.registry import register
from groundrl.data.base import Split
from groundrl.data.describe import Style, describe
from groundrl.data.scene import COLOURS, SHAPES, SceneObject
from groundrl.data.world import (
    Asked,
    SceneConfig,
    World,
    check_pair,
    check_share,
    check_styles,
    draw_style,
)
from groundrl.errors import ConfigError
from groundrl.types import LabeledBox, Task, Truth

DESCRIBING = (Task.rec, Task.point)
TASKS = (*DESCRIBING, Task.ovd, Task.numeric)
ABSENT_COUNTS = 0.3
"""Share of counting questions about any kind at all, which is mostly one that is not there."""


@dataclass(kw_only=True, slots=True)
class ShapesConfig(SceneConfig):
    """Settings of a synthetic world.

    task           rec, point: one described object; ovd: all objects of the named categories; numeric: how
                   many objects of a colour, a shape or both there are
    styles         rec, point: relative weight of each way to describe the target (word: its shape,
                   attribute: colour and shape, relation: beside another object, negation: the one that is
                   not of a colour)
    negatives      ovd: [min, max] number of absent categories in the prompt
    none_fraction  ovd: share of samples in which no named category is present (truth: None)
    """

    styles: dict[str, float] = field(
        default_factory=lambda: {"word": 0.3, "attribute": 0.7, "relation": 0.0, "negation": 0.0}
    )
    negatives: list[int] = field(default_factory=lambda: [1, 2])
    none_fraction: float = 0.1

    def __post_init__(self) -> None:
        SceneConfig.__post_init__(self)
        if self.task not in TASKS:
            known = ", ".join(TASKS)
            raise ConfigError("task", "no such shapes", got=str(self.task), todo=f"use one of {known}")
        check_pair("negatives", self.negatives, 0)
        check_share("none_fraction", self.none_fraction)
        check_styles(self.styles, [style.value for style in Style], needed=self.task in DESCRIBING)

    def build(self, split: Split) -> Shapes:
        return Shapes(self, split)


class Shapes(World[ShapesConfig]):
    """The samples of one split of a world."""

    name = "shapes"
    version = "shapes-2"

    def ask(self, rng: np.random.Generator, objects: list[SceneObject]) -> Asked | None:
        if self.config.task in DESCRIBING:
            return self._refer(rng, objects)
        return self._detect(rng, objects) if self.config.task is Task.ovd else self._count(rng, objects)

    def _refer(self, rng: np.random.Generator, objects: list[SceneObject]) -> Asked | None:
        style = Style(draw_style(rng, self.config.styles))
        target = objects[int(rng.integers(len(objects)))]
        phrase = describe(style, target, objects)
        if phrase is None:
            return None
        return Asked(question=phrase, truth=Truth(boxes=(LabeledBox(xyxy=target.xyxy, label=phrase),)))

    def _detect(self, rng: np.random.Generator, objects: list[SceneObject]) -> Asked:
        config = self.config
        present = list(dict.fromkeys(item.name for item in objects))
        absent = [f"{c} {s}" for c in COLOURS for s in SHAPES if f"{c} {s}" not in present]
        nothing = bool(rng.random() < config.none_fraction)
        count = int(rng.integers(config.negatives[0], config.negatives[1] + 1))
        count = min(max(count, 1) if nothing else count, len(absent))
        negatives = [absent[i] for i in rng.choice(len(absent), size=count, replace=False)]
        names = negatives if nothing else present + negatives
        targets = tuple(names[i] for i in rng.permutation(len(names)))
        boxes = () if nothing else tuple(LabeledBox(xyxy=item.xyxy, label=item.name) for item in objects)
        return Asked(targets=targets, truth=Truth(boxes=boxes))

    def _count(self, rng: np.random.Generator, objects: list[SceneObject]) -> Asked:
        kinds = [*COLOURS, *SHAPES, *(f"{colour} {shape}" for colour in COLOURS for shape in SHAPES)]
        near = objects[int(rng.integers(len(objects)))]
        asked = [near.colour, near.shape, near.name][int(rng.integers(3))]
        if rng.random() < ABSENT_COUNTS:
            asked = kinds[int(rng.integers(len(kinds)))]
        counted = [item for item in objects if asked in (item.colour, item.shape, item.name)]
        noun = f"{asked} shapes" if asked in COLOURS else f"{asked}s"
        evidence = tuple(LabeledBox(xyxy=item.xyxy, label=item.name) for item in counted)
        truth = Truth(answer=str(len(counted)), evidence=evidence)
        return Asked(question=f"How many {noun} are there?", truth=truth)


@register("dataset", "shapes_rec")
@dataclass(kw_only=True, slots=True)
class ShapesRecConfig(ShapesConfig):
    """`dataset=shapes_rec`."""


@register("dataset", "shapes_ovd")
@dataclass(kw_only=True, slots=True)
class ShapesOvdConfig(ShapesConfig):
    """`dataset=shapes_ovd`."""


@register("dataset", "shapes_point")
@dataclass(kw_only=True, slots=True)
class ShapesPointConfig(ShapesConfig):
    """`dataset=shapes_point`."""


@register("dataset", "shapes_numeric")
@dataclass(kw_only=True, slots=True)
class ShapesNumericConfig(ShapesConfig):
    """`dataset=shapes_numeric`."""
