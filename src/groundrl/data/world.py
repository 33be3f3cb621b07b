"""What all synthetic worlds share: scenes of coloured shapes, unlimited, seeded, in splits that share none.

Scene i of a world is a function of (seed, split, i) alone. The splits cannot share a scene: a digest of
the scene's objects decides to which split it belongs (1 in 8 is held out), whatever is asked and whatever
the seed, so two worlds that differ only in their seed do not leak into each other's evaluation either.
"""

from __future__ import annotations

import hashlib
import json
from abc import ABC, abstractmethod
from dataclasses import asdict, dataclass, field
from typing import Generic, TypeVar

import numpy as np

from groundrl.data.base import DatasetConfig, Split
from groundrl.data.scene import Ground, SceneObject, place_objects, render
from groundrl.errors import ConfigError, DataError
from groundrl.types import Sample, Task, Truth

C = TypeVar("C", bound="SceneConfig")

HELDOUT_SHARE = 8
MAX_ATTEMPTS = 2000


@dataclass(kw_only=True, slots=True)
class SceneConfig(DatasetConfig):
    """How scenes look. Sizes and coordinates are in pixels of the square image.

    seed         the world's seed (not the run's): the same world for every run seed
    image_size   side of the image
    objects      [min, max] number of objects
    size         [min, max] side of an object
    grid         corners lie on multiples of this; coarser coordinates are easier to write
    noise        standard deviation of the pixel noise, in grey levels
    difficulty   chance in [0, 1] that an object copies the colour or the shape of an earlier one
    max_overlap  largest share of the smaller of two objects that the other may cover
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

    def __post_init__(self) -> None:
        DatasetConfig.__post_init__(self)
        check_pair("objects", self.objects, 1)
        check_pair("size", self.size, 4)
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
        for key in ("difficulty", "max_overlap"):
            check_share(key, getattr(self, key))


def check_pair(key: str, pair: list[int], low: int) -> None:
    """Raise ConfigError unless `pair` is [min, max] with low <= min <= max."""
    if len(pair) != 2 or not low <= pair[0] <= pair[1]:
        raise ConfigError(
            key, f"must be [min, max] with {low} <= min <= max", got=list(pair), todo="e.g. [1, 2]"
        )


def check_share(key: str, value: float) -> None:
    """Raise ConfigError unless `value` lies in [0, 1]."""
    if not 0 <= value <= 1:
        raise ConfigError(key, "must lie in [0, 1]", got=value, todo="e.g. 0.3")


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What is asked about a scene. `kind`: appended to the sample's source, for measures per source."""

    truth: Truth
    question: str = ""
    targets: tuple[str, ...] = ()
    kind: str = ""


class World(ABC, Generic[C]):
    """The samples of one split of a world."""

    name: str
    """Begins every sample's id, and is its source."""
    version: str
    """Goes into the fingerprint; a new one when samples change."""

    def __init__(self, config: C, split: Split) -> None:
        self.config = config
        self.split = split
        self.size = config.train_size if split is Split.TRAIN else None

    @abstractmethod
    def ask(self, rng: np.random.Generator, objects: list[SceneObject]) -> Asked | None:
        """A question about the scene; None when it has none of the kind."""

    def ground(self) -> Ground:
        """What scenes are drawn on."""
        return Ground.plain

    def tasks(self) -> frozenset[Task]:
        return frozenset({self.config.task})

    def fingerprint(self) -> str:
        text = json.dumps({"world": self.version, "split": self.split, **asdict(self.config)}, sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    def sample(self, index: int) -> Sample:
        """Sample `index` (>= 0) of this split."""
        return self.draw(index)[0]

    def draw(self, index: int) -> tuple[Sample, list[SceneObject]]:
        """Sample `index` and all objects of its scene."""
        config = self.config
        if index < 0 or (self.size is not None and index >= self.size):
            raise DataError(self.name, f"index {index} is outside the pool of {self.size}", row=index)
        stream = 0 if self.split is Split.TRAIN else 1
        for attempt in range(MAX_ATTEMPTS):
            rng = np.random.default_rng([config.seed, stream, index, attempt])
            objects = place_objects(
                rng,
                count=int(rng.integers(config.objects[0], config.objects[1] + 1)),
                image_size=config.image_size,
                size=(config.size[0], config.size[1]),
                grid=config.grid,
                max_overlap=config.max_overlap,
                difficulty=config.difficulty,
            )
            asked = None if objects is None else self.ask(rng, objects)
            if objects is None or asked is None or _belongs_to(objects) is not self.split:
                continue
            image = render(objects, config.image_size, config.noise, rng, self.ground())
            sample = Sample(
                id=f"{self.name}-{config.task}-{self.split}-{config.seed}-{index}",
                task=config.task,
                images=(image,),
                truth=asked.truth,
                question=asked.question,
                targets=asked.targets,
                split=str(self.split),
                source=asked.kind or self.name,
            )
            return sample, objects
        raise DataError(
            self.name,
            f"no scene fits the settings in {MAX_ATTEMPTS} tries",
            row=index,
            todo="lower dataset.objects or dataset.size, or allow another dataset.styles",
        )


def _belongs_to(objects: list[SceneObject]) -> Split:
    """The split that owns this scene: a digest of its objects, whatever is asked about them."""
    content = sorted(f"{item.name}{item.xyxy}" for item in objects)
    first = hashlib.sha256("|".join(content).encode()).digest()[0]
    return Split.HELDOUT if first % HELDOUT_SHARE == 0 else Split.TRAIN


def check_styles(styles: dict[str, float], known: list[str], *, needed: bool) -> None:
    """Raise ConfigError unless all are `known` with weights >= 0, some positive where `needed`."""
    for name, weight in styles.items():
        if name not in known:
            raise ConfigError(f"styles.{name}", "no such style", got=weight, todo=f"use {', '.join(known)}")
        if not 0 <= weight < float("inf"):
            raise ConfigError(f"styles.{name}", "must be a weight >= 0", got=weight, todo="use 0 for none")
    if needed and sum(styles.values()) <= 0:
        raise ConfigError("styles", "all weights are 0", got=dict(styles), todo="raise one of them")


def draw_style(rng: np.random.Generator, styles: dict[str, float]) -> str:
    """One of the styles, by weight."""
    names = [name for name, weight in styles.items() if weight > 0]
    weights = np.array([styles[name] for name in names])
    return names[int(rng.choice(len(names), p=weights / weights.sum()))]
