"""Synthetic worlds: coloured shapes on grey, unlimited, seeded, with exact boxes.

rec and point ask for one described object, ovd for all objects of named categories, numeric for a count.

Scene i of a world is a function of (seed, split, i) alone. The splits cannot share a scene: a digest of
the scene's objects decides to which split it belongs (1 in 8 is held out), whatever is asked and whatever
the seed, so two worlds that differ only in their seed do not leak into each other's evaluation either.
"""

from __future__ import annotations

import hashlib
import json
import math
from dataclasses import asdict, dataclass, field

import numpy as np

from groundrl.config.registry import register
from groundrl.data.base import DatasetConfig, Split
from groundrl.data.describe import Style, describe
from groundrl.data.scene import COLOURS, SHAPES, SceneObject, place_objects, render
from groundrl.errors import ConfigError, DataError
from groundrl.types import LabeledBox, Sample, Task, Truth

HELDOUT_SHARE = 8
MAX_ATTEMPTS = 2000
DESCRIBING = (Task.rec, Task.point)
TASKS = (*DESCRIBING, Task.ovd, Task.numeric)
ABSENT_COUNTS = 0.3
"""Share of counting questions about any kind at all, which is mostly one that is not there."""


@dataclass(kw_only=True, slots=True)
class ShapesConfig(DatasetConfig):
    """Settings of a synthetic world. Sizes and coordinates are in pixels of the square image.

    task                 rec, point: one described object; ovd: all objects of the named categories; numeric:
                         how many objects of a colour, a shape or both there are
    seed                 the world's seed (not the run's): the same world for every run seed
    image_size           side of the image
    objects              [min, max] number of objects
    size                 [min, max] side of an object
    grid                 corners lie on multiples of this; coarser coordinates are easier to write
    noise                standard deviation of the pixel noise, in grey levels
    difficulty           chance in [0, 1] that an object copies the colour or the shape of an earlier one
    max_overlap          largest share of the smaller of two objects that the other may cover
    styles               rec, point: relative weight of each way to describe the target (word: its shape,
                         attribute: colour and shape, relation: beside another object, negation: the one
                         that is not of a colour)
    negatives            ovd: [min, max] number of absent categories in the prompt
    none_fraction        ovd: share of samples in which no named category is present (truth: None)
    """

    task: Task = Task.rec
    seed: int = 0
    image_size: int = 112
    objects: list[int] = field(default_factory=lambda: [1, 2])
    size: list[int] = field(default_factory=lambda: [24, 56])
    grid: int = 1
    noise: float = 8.0
    difficulty: float = 0.3
    max_overlap: float = 0.1
    styles: dict[str, float] = field(
        default_factory=lambda: {"word": 0.3, "attribute": 0.7, "relation": 0.0, "negation": 0.0}
    )
    negatives: list[int] = field(default_factory=lambda: [1, 2])
    none_fraction: float = 0.1

    def __post_init__(self) -> None:
        DatasetConfig.__post_init__(self)
        if self.task not in TASKS:
            known = ", ".join(TASKS)
            raise ConfigError("task", "no such shapes", got=str(self.task), todo=f"use one of {known}")
        for key, low in (("objects", 1), ("size", 4), ("negatives", 0)):
            pair: list[int] = getattr(self, key)
            if len(pair) != 2 or not low <= pair[0] <= pair[1]:
                raise ConfigError(
                    key, f"must be [min, max] with {low} <= min <= max", got=list(pair), todo="e.g. [1, 2]"
                )
        if self.size[1] > self.image_size:
            raise ConfigError(
                "size",
                f"an object cannot be larger than the image ({self.image_size})",
                got=list(self.size),
                todo="lower the maximum or raise image_size",
            )
        if self.grid < 1 or not any(side % self.grid == 0 for side in range(self.size[0], self.size[1] + 1)):
            raise ConfigError(
                "grid",
                f"no side in {list(self.size)} is a multiple of it",
                got=self.grid,
                todo="widen size, or use 1 for none",
            )
        if not 0 <= self.noise <= 255:
            raise ConfigError("noise", "must lie in [0, 255]", got=self.noise, todo="use 0 for none")
        for key in ("difficulty", "max_overlap", "none_fraction"):
            if not 0 <= getattr(self, key) <= 1:
                raise ConfigError(key, "must lie in [0, 1]", got=getattr(self, key), todo="e.g. 0.3")
        known = [style.value for style in Style]
        for name, weight in self.styles.items():
            if name not in known:
                raise ConfigError(
                    f"styles.{name}", "no such style", got=weight, todo=f"use {', '.join(known)}"
                )
            if not 0 <= weight < math.inf:
                raise ConfigError(
                    f"styles.{name}", "must be a weight >= 0", got=weight, todo="use 0 for none"
                )
        if self.task in DESCRIBING and sum(self.styles.values()) <= 0:
            raise ConfigError("styles", "all weights are 0", got=dict(self.styles), todo="raise one of them")

    def build(self, split: Split) -> Shapes:
        return Shapes(self, split)


class Shapes:
    """The samples of one split of a world."""

    def __init__(self, config: ShapesConfig, split: Split) -> None:
        self.config = config
        self.split = split
        self.size = config.train_size if split is Split.TRAIN else None

    def tasks(self) -> frozenset[Task]:
        return frozenset({self.config.task})

    def fingerprint(self) -> str:
        text = json.dumps({"world": "shapes-2", "split": self.split, **asdict(self.config)}, sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    def sample(self, index: int) -> Sample:
        """Sample `index` (>= 0) of this split."""
        if index < 0 or (self.size is not None and index >= self.size):
            raise DataError("shapes", f"index {index} is outside the pool of {self.size}", row=index)
        stream = 0 if self.split is Split.TRAIN else 1
        for attempt in range(MAX_ATTEMPTS):
            rng = np.random.default_rng([self.config.seed, stream, index, attempt])
            drawn = self._draw(rng)
            if drawn is None:
                continue
            objects, question, targets, truth = drawn
            if _belongs_to(objects) is not self.split:
                continue
            image = render(objects, self.config.image_size, self.config.noise, rng)
            return Sample(
                id=f"shapes-{self.config.task}-{self.split}-{self.config.seed}-{index}",
                task=self.config.task,
                images=(image,),
                truth=truth,
                question=question,
                targets=targets,
                split=str(self.split),
                source="shapes",
            )
        raise DataError(
            "shapes",
            f"no scene fits the settings in {MAX_ATTEMPTS} tries",
            row=index,
            todo="lower dataset.objects or dataset.size, or allow another dataset.styles",
        )

    def _draw(self, rng: np.random.Generator) -> tuple[list[SceneObject], str, tuple[str, ...], Truth] | None:
        config = self.config
        objects = place_objects(
            rng,
            count=int(rng.integers(config.objects[0], config.objects[1] + 1)),
            image_size=config.image_size,
            size=(config.size[0], config.size[1]),
            grid=config.grid,
            max_overlap=config.max_overlap,
            difficulty=config.difficulty,
        )
        if objects is None:
            return None
        if config.task in DESCRIBING:
            return self._refer(rng, objects)
        return self._detect(rng, objects) if config.task is Task.ovd else self._count(rng, objects)

    def _refer(
        self, rng: np.random.Generator, objects: list[SceneObject]
    ) -> tuple[list[SceneObject], str, tuple[str, ...], Truth] | None:
        styles = [name for name, weight in self.config.styles.items() if weight > 0]
        weights = np.array([self.config.styles[name] for name in styles])
        style = Style(styles[int(rng.choice(len(styles), p=weights / weights.sum()))])
        target = objects[int(rng.integers(len(objects)))]
        phrase = describe(style, target, objects)
        if phrase is None:
            return None
        return objects, phrase, (), Truth(boxes=(LabeledBox(xyxy=target.xyxy, label=phrase),))

    def _detect(
        self, rng: np.random.Generator, objects: list[SceneObject]
    ) -> tuple[list[SceneObject], str, tuple[str, ...], Truth]:
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
        return objects, "", targets, Truth(boxes=boxes)

    def _count(
        self, rng: np.random.Generator, objects: list[SceneObject]
    ) -> tuple[list[SceneObject], str, tuple[str, ...], Truth]:
        kinds = [*COLOURS, *SHAPES, *(f"{colour} {shape}" for colour in COLOURS for shape in SHAPES)]
        near = objects[int(rng.integers(len(objects)))]
        asked = [near.colour, near.shape, near.name][int(rng.integers(3))]
        if rng.random() < ABSENT_COUNTS:
            asked = kinds[int(rng.integers(len(kinds)))]
        counted = [item for item in objects if asked in (item.colour, item.shape, item.name)]
        noun = f"{asked} shapes" if asked in COLOURS else f"{asked}s"
        evidence = tuple(LabeledBox(xyxy=item.xyxy, label=item.name) for item in counted)
        return objects, f"How many {noun} are there?", (), Truth(answer=str(len(counted)), evidence=evidence)


def _belongs_to(objects: list[SceneObject]) -> Split:
    """The split that owns this scene: a digest of its objects, whatever is asked about them."""
    content = sorted(f"{item.name}{item.xyxy}" for item in objects)
    first = hashlib.sha256("|".join(content).encode()).digest()[0]
    return Split.HELDOUT if first % HELDOUT_SHARE == 0 else Split.TRAIN


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
