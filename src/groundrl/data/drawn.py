"""What synthetic charts and tables share: pictures drawn from parts, with a question about them.

Every answer is a short text: a number, or a colour. Sample i is a function of (seed, split, i) alone, and a
digest of the picture's parts decides to which split it belongs (1 in 8 is held out), whatever is asked and
whatever the seed.
"""

from __future__ import annotations

import hashlib
import json
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Generic, Protocol, TypeVar

import numpy as np
from PIL import Image, ImageDraw

from groundrl.data.base import DatasetConfig, Split
from groundrl.data.world import HELDOUT_SHARE, MAX_ATTEMPTS, draw_style
from groundrl.errors import ConfigError, DataError
from groundrl.types import XYXY, LabeledBox, Sample, Task, Truth

GROUND = (245, 245, 245)
INK = (40, 40, 40)
LINE = (205, 205, 205)


@dataclass(kw_only=True, slots=True)
class DrawnConfig(DatasetConfig):
    """Settings of charts and tables.

    seed         the world's seed (not the run's)
    image_size   side of the square image, pixels
    noise        standard deviation of the pixel noise, in grey levels
    questions    relative weight of each kind of question
    """

    seed: int = 0
    image_size: int = 112
    noise: float = 6.0
    questions: dict[str, float] = field(default_factory=dict[str, float])

    def __post_init__(self) -> None:
        DatasetConfig.__post_init__(self)
        if self.image_size < 56:
            raise ConfigError("image_size", "must be at least 56", got=self.image_size, todo="e.g. 112")
        if not 0 <= self.noise <= 255:
            raise ConfigError("noise", "must lie in [0, 255]", got=self.noise, todo="use 0 for none")


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What is asked about a picture. evidence: where the answer is to be seen."""

    text: str
    answer: str
    evidence: tuple[LabeledBox, ...] = ()


class Part(Protocol):
    """Something drawn. Its `repr` tells all of it, and it fills `xyxy` (pixels, half open)."""

    @property
    def xyxy(self) -> XYXY: ...


C = TypeVar("C", bound=DrawnConfig)
P = TypeVar("P", bound=Part)


class Drawn(ABC, Generic[C, P]):
    """The samples of one split."""

    name: str
    version: str
    """Goes into the fingerprint; a new one when samples change."""

    def __init__(self, config: C, split: Split) -> None:
        self.config = config
        self.split = split
        self.size = config.train_size if split is Split.TRAIN else None

    @abstractmethod
    def place(self, rng: np.random.Generator) -> list[P]:
        """The parts of one picture."""

    @abstractmethod
    def paint(self, draw: ImageDraw.ImageDraw, parts: list[P]) -> None:
        """Draw them on an empty ground."""

    @abstractmethod
    def ask(self, kind: str, rng: np.random.Generator, parts: list[P]) -> Question | None:
        """A question of a kind; None where the picture has no single answer to it."""

    def tasks(self) -> frozenset[Task]:
        return frozenset({Task.text})

    def fingerprint(self) -> str:
        text = json.dumps({"world": self.version, "split": self.split, **asdict(self.config)}, sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    def sample(self, index: int) -> Sample:
        """Sample `index` (>= 0) of this split; its source is the kind of its question."""
        return self.draw(index)[0]

    def draw(self, index: int) -> tuple[Sample, list[P]]:
        """Sample `index` and the parts of its picture."""
        config = self.config
        if index < 0 or (self.size is not None and index >= self.size):
            raise DataError(self.name, f"index {index} is outside the pool of {self.size}", row=index)
        stream = 0 if self.split is Split.TRAIN else 1
        for attempt in range(MAX_ATTEMPTS):
            rng = np.random.default_rng([config.seed, stream, index, attempt])
            parts = self.place(rng)
            kind = draw_style(rng, config.questions)
            question = self.ask(kind, rng, parts)
            if question is None or _belongs_to(parts) is not self.split:
                continue
            sample = Sample(
                id=f"{self.name}-{self.split}-{config.seed}-{index}",
                task=Task.text,
                images=(self._image(rng, parts),),
                truth=Truth(answer=question.answer, evidence=question.evidence),
                question=question.text,
                split=str(self.split),
                source=f"{self.name}/{kind}",
            )
            return sample, parts
        raise DataError(
            self.name,
            f"no picture fits the settings in {MAX_ATTEMPTS} tries",
            row=index,
            todo="allow another of dataset.questions",
        )

    def _image(self, rng: np.random.Generator, parts: list[P]) -> Image.Image:
        side = self.config.image_size
        image = Image.new("RGB", (side, side), GROUND)
        self.paint(ImageDraw.Draw(image), parts)
        if self.config.noise == 0:
            return image
        pixels = np.asarray(image, dtype=np.float64)
        noisy = pixels + rng.normal(0.0, self.config.noise, size=pixels.shape)
        return Image.fromarray(np.clip(np.rint(noisy), 0, 255).astype(np.uint8))


def _belongs_to(parts: Sequence[Part]) -> Split:
    """The split that owns a picture: a digest of what is drawn, whatever is asked about it."""
    content = "|".join(repr(part) for part in parts)
    first = hashlib.sha256(content.encode()).digest()[0]
    return Split.HELDOUT if first % HELDOUT_SHARE == 0 else Split.TRAIN


def check_questions(questions: dict[str, float], known: Sequence[str]) -> None:
    """Raise ConfigError unless all are `known` with weights >= 0, some positive."""
    for name, weight in questions.items():
        if name not in known:
            todo = f"use {', '.join(known)}"
            raise ConfigError(f"questions.{name}", "no such question", got=weight, todo=todo)
        if not 0 <= weight < float("inf"):
            raise ConfigError(f"questions.{name}", "must be a weight >= 0", got=weight, todo="0 for none")
    if sum(questions.values()) <= 0:
        raise ConfigError("questions", "all weights are 0", got=dict(questions), todo="raise one of them")
