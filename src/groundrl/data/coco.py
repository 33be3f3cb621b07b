"""`dataset=coco`: detection and region labelling from a COCO instances file (format: coco_file.py).

ovd samples ask for category names; mcq samples ask which of four names is that of a given box. Names are in
file order, negatives too, so their place says nothing. Regions marked iscrowd are in no truth: their boxes
are left out and counted, and their categories are never negatives.

Assumed: COCO_filtered drops pairs of image and category (no code is public; over the whole set it would drop
nearly every category); in mode `all` the names that a subset dropped are still asked for, as in the paper,
section 5.2.2, where the prompt always lists the 80 names.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from typing import cast

import numpy as np

from groundrl.config.registry import register
from groundrl.data.base import Split
from groundrl.data.coco_file import CocoEntry, CocoFile, CocoImage, read_coco
from groundrl.data.coco_filters import Instance, Instances, Subset, select, single_per_category
from groundrl.data.rows import FileConfig, Row, RowSamples, Skips
from groundrl.errors import ConfigError, DataError
from groundrl.types import LabeledBox, Task

logger = logging.getLogger(__name__)

LETTERS = "ABCD"
ASSUMED = (
    "%s: assumed for dataset.subset=%s: boxes are counted in each image, and exactly %d are %s "
    "(the sources state both)"
)


class Mode(StrEnum):
    """Which names an ovd sample asks for (blog of 2025-03-24).

    all                   every category of the file
    positive              those present in the image, and `negatives`
    one_box_per_category  those with exactly one box in the image; the boxes of others are not in the truth
    """

    all = "all"
    positive = "positive"
    one_box_per_category = "one_box_per_category"


@register("dataset", "coco")
@dataclass(kw_only=True, slots=True)
class CocoConfig(FileConfig):
    """A COCO instances file.

    task            ovd: find objects; mcq: choose the name of a box among four
    mode            ovd: which names are asked for
    subset          which boxes and images are kept (coco_filters.py)
    max_boxes       filtered, pos_3: how many boxes are few
    keep_boundary   filtered, pos_3: whether exactly max_boxes are still few
    small_fraction  small, regular: a box below this share of its image is small
    negatives       mode positive: [min, max] number of names not in the image that are asked for as well
    seed            of negatives and options, which are a function of it and the sample's id
    """

    task: Task = Task.ovd
    mode: Mode = Mode.all
    subset: Subset = Subset.all
    max_boxes: int = 10
    keep_boundary: bool = True
    small_fraction: float = 0.005
    negatives: list[int] = field(default_factory=lambda: [0, 0])
    seed: int = 0

    def __post_init__(self) -> None:
        FileConfig.__post_init__(self)
        if self.task not in (Task.ovd, Task.mcq):
            todo = "choose a reward for ovd (reward=odlength), or reward=answer task=mcq"
            raise ConfigError("task", "a COCO file has no such samples", got=str(self.task), todo=todo)
        if self.max_boxes < 1:
            raise ConfigError("max_boxes", "must be >= 1", got=self.max_boxes, todo="e.g. 10")
        if not 0 < self.small_fraction <= 1:
            raise ConfigError(
                "small_fraction", "must lie in (0, 1]", got=self.small_fraction, todo="e.g. 0.005"
            )
        if len(self.negatives) != 2 or not 0 <= self.negatives[0] <= self.negatives[1]:
            problem = "must be [min, max] with 0 <= min <= max"
            raise ConfigError("negatives", problem, got=list(self.negatives), todo="e.g. [1, 3]")
        if self.seed < 0:
            raise ConfigError("seed", "must be >= 0", got=self.seed, todo="e.g. 0")
        if self.task is Task.mcq and self.mode is not Mode.all:
            problem = "would be ignored: an mcq sample asks for one box"
            raise ConfigError("mode", problem, got=str(self.mode), todo="remove it")
        if self.task is Task.mcq and self.subset is Subset.single_class:
            problem = "would be ignored: an mcq sample asks for one box"
            raise ConfigError("subset", problem, got=str(self.subset), todo="use all")
        if self.negatives[1] and self.mode is not Mode.positive:
            problem = "would be ignored: only mode positive adds them"
            raise ConfigError(
                "negatives", problem, got=list(self.negatives), todo="add dataset.mode=positive"
            )
        if self.subset is Subset.single_class and self.mode is not Mode.positive:
            problem = "must be positive for subset single_class, which asks for one present category"
            raise ConfigError("mode", problem, got=str(self.mode), todo="write dataset.mode=positive")

    def build(self, split: Split) -> RowSamples:
        """The samples of a split. Raises DataError for a file or an image that cannot be used."""
        coco = read_coco(self.file(split))
        if self.task is Task.mcq and len(coco.names) < len(LETTERS):
            problem = f"has {len(coco.names)} categories, but a choice is among {len(LETTERS)}"
            raise DataError(coco.file, problem, todo="use task ovd")
        if coco.crowds:
            logger.warning("%s: %d crowd annotations were left out", coco.file, coco.crowds)
        if self.subset in (Subset.filtered, Subset.pos_3):
            few = "few" if self.keep_boundary else "too many"
            logger.warning(ASSUMED, coco.file, self.subset, self.max_boxes, few)
        skips = Skips(self.on_error, coco.file)
        read = CocoReader(self, coco, coco.file.stem)
        samples = RowSamples(self, split, skips.rows(coco.entries, read), source="coco")
        skips.report()
        return samples


class CocoReader:
    """Makes the rows of one image. Their ids begin with `name`."""

    def __init__(self, config: CocoConfig, coco: CocoFile, name: str) -> None:
        self.config = config
        self.coco = coco
        self.name = name

    def __call__(self, item: object) -> Iterator[Row]:
        config = self.config
        image = self.coco.image(cast("CocoEntry", item))
        kept = select(
            config.subset,
            image.instances,
            image.size,
            max_boxes=config.max_boxes,
            keep_boundary=config.keep_boundary,
            fraction=config.small_fraction,
        )
        if config.task is Task.mcq:
            return (self._choice(image, one) for one in kept)
        if config.subset is Subset.single_class:
            return self._single_class(image, kept)
        return self._detection(image, kept)

    def _detection(self, image: CocoImage, kept: Instances) -> Iterator[Row]:
        if self.config.mode is Mode.one_box_per_category:
            kept = single_per_category(kept)
        may_be_empty = self.config.subset is Subset.all and self.config.mode is not Mode.one_box_per_category
        if not kept and (image.instances or image.crowds or not may_be_empty):
            return
        names = set(self.coco.names)
        if self.config.mode is not Mode.all:
            names = {one.category for one in kept} | self._negatives(image, self._id(image))
        if names:
            yield self._row(image, self._id(image), names, kept)

    def _single_class(self, image: CocoImage, kept: Instances) -> Iterator[Row]:
        for name in dict.fromkeys(one.category for one in kept):
            own = self._id(image, name)
            boxes = tuple(one for one in kept if one.category == name)
            yield self._row(image, own, {name} | self._negatives(image, own), boxes)

    def _row(self, image: CocoImage, own: str, names: set[str], kept: Instances) -> Row:
        return Row(
            number=image.number,
            id=own,
            task=Task.ovd,
            images=(image.file_name,),
            targets=tuple(name for name in self.coco.names if name in names),
            boxes=tuple(LabeledBox(xyxy=one.xyxy, label=one.category) for one in kept),
            key=image.file_name,
        )

    def _choice(self, image: CocoImage, one: Instance) -> Row:
        """A question whose box is in thousandths of the image, as the model's own space is not known yet."""
        own = self._id(image, one.id)
        rng = self._rng(own)
        others = [name for name in self.coco.names if name != one.category]
        options = [others[i] for i in rng.choice(len(others), size=len(LETTERS) - 1, replace=False)]
        place = int(rng.integers(len(LETTERS)))
        options.insert(place, one.category)
        scale = (1000 / image.size[0], 1000 / image.size[1])
        box = [round(value * scale[index % 2]) for index, value in enumerate(one.xyxy)]
        lines = [f"{letter}. {name}" for letter, name in zip(LETTERS, options, strict=True)]
        asked = (
            f"What is in the box {box}? It is given as [x1, y1, x2, y2]; coordinates run from 0 to 1000 over "
            "the width and over the height of the image."
        )
        return Row(
            number=image.number,
            id=own,
            task=Task.mcq,
            images=(image.file_name,),
            question="\n".join([asked, *lines]),
            answer=LETTERS[place],
            key=image.file_name,
        )

    def _negatives(self, image: CocoImage, own: str) -> set[str]:
        """Names of which the image has neither a box nor a crowd."""
        low, high = self.config.negatives
        if not high:
            return set()
        present = {one.category for one in image.instances} | image.crowds
        absent = [name for name in self.coco.names if name not in present]
        rng = self._rng(own)
        count = min(int(rng.integers(low, high + 1)), len(absent))
        return {absent[i] for i in rng.choice(len(absent), size=count, replace=False)} if count else set()

    def _id(self, image: CocoImage, part: str = "") -> str:
        return f"{self.name}:{image.id}" + (f":{part}" if part else "")

    def _rng(self, own: str) -> np.random.Generator:
        digest = int.from_bytes(hashlib.sha256(own.encode()).digest()[:8], "big")
        return np.random.default_rng([self.config.seed, digest])
