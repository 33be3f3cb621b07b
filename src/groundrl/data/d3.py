"""`dataset=d3`: the Description Detection Dataset D3 (Xie et al., Described Object Detection, section 3).

Format: shikras/d-cube at 0da1221, doc.md and scripts/eval_and_analysis_json.py: in the folder d3_json,
d3_full_annotations.json (422 descriptions; d3_pres: the 316 of presence, d3_abs: the 106 of absence) is a
COCO instances file (coco_file.py) whose categories are the descriptions, category_id = sent_id. By doc.md
every description is annotated on every image, so one without a box is absent.

A sample asks for the descriptions that hold in an image and, as VLM-R1 (arXiv 2504.07615) does, for
`negatives` random ones of other images. Names are in the order of the categories, negatives
too.

Assumed: file names are relative to d3_images; the file has what the COCO format asks for, for the release
itself was not at hand, only the code that reads it.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import cast

import numpy as np

from groundrl.config.registry import register
from groundrl.data.base import Split
from groundrl.data.coco_file import CocoEntry, CocoFile, CocoImage, read_coco
from groundrl.data.rows import FileConfig, Row, RowSamples, Skips
from groundrl.errors import ConfigError
from groundrl.types import LabeledBox, Task

logger = logging.getLogger(__name__)

SOURCE = "d3"
ASSUMED = "%s: assumed to be a COCO instances file with descriptions as categories (docs/howto/data/d3.md)"


@register("dataset", "d3")
@dataclass(kw_only=True, slots=True)
class D3Config(FileConfig):
    """Described objects, one ovd sample an image.

    negatives      [min, max] number of descriptions asked for that do not hold in the image
    include_empty  give a sample, with negatives only, of an image in which nothing described is
    seed           of the negatives, which are a function of it and the sample's id
    """

    negatives: list[int] = field(default_factory=lambda: [1, 3])
    include_empty: bool = False
    seed: int = 0

    def __post_init__(self) -> None:
        FileConfig.__post_init__(self)
        if len(self.negatives) != 2 or not 0 <= self.negatives[0] <= self.negatives[1]:
            problem = "must be [min, max] with 0 <= min <= max"
            raise ConfigError("negatives", problem, got=list(self.negatives), todo="e.g. [1, 3]")
        if self.include_empty and not self.negatives[0]:
            problem = "must be >= [1, 1]: an image in which nothing described is has no other targets"
            raise ConfigError(
                "negatives", problem, got=list(self.negatives), todo="e.g. [1, 3], or include_empty=false"
            )
        if self.seed < 0:
            raise ConfigError("seed", "must be >= 0", got=self.seed, todo="e.g. 0")

    def build(self, split: Split) -> RowSamples:
        """The samples of a split. Raises DataError for a file or an image that cannot be used."""
        coco = read_coco(self.file(split))
        logger.warning(ASSUMED, coco.file)
        if coco.crowds:
            logger.warning("%s: %d crowd annotations were left out", coco.file, coco.crowds)
        skips = Skips(self.on_error, coco.file)
        samples = RowSamples(self, split, skips.rows(coco.entries, _Reader(self, coco)), source=SOURCE)
        skips.report()
        return samples


class _Reader:
    """Makes the row of one image."""

    def __init__(self, config: D3Config, coco: CocoFile) -> None:
        self.config = config
        self.coco = coco

    def __call__(self, item: object) -> Iterator[Row]:
        image = self.coco.image(cast("CocoEntry", item))
        present = {one.category for one in image.instances}
        if not present and (image.crowds or not self.config.include_empty):
            return
        own = f"{self.coco.file.stem}:{image.id}"
        names = present | self._negatives(image, present, own)
        yield Row(
            number=image.number,
            id=own,
            task=Task.ovd,
            images=(image.file_name,),
            targets=tuple(name for name in self.coco.names if name in names),
            boxes=tuple(LabeledBox(xyxy=one.xyxy, label=one.category) for one in image.instances),
            key=image.file_name,
        )

    def _negatives(self, image: CocoImage, present: set[str], own: str) -> set[str]:
        """Descriptions of other images that do not hold in this one; fewer where there are not enough."""
        low, high = self.config.negatives
        absent = sorted({*self.coco.names} - present - image.crowds)
        digest = int.from_bytes(hashlib.sha256(own.encode()).digest()[:8], "big")
        rng = np.random.default_rng([self.config.seed, digest])
        count = min(int(rng.integers(low, high + 1)), len(absent))
        return (
            {absent[place] for place in rng.choice(len(absent), size=count, replace=False)}
            if count
            else set()
        )
