"""`dataset=ovdeval`: the sub-sets of OVDEval (Yao et al., How to Evaluate the Generalization of Detection?).

Format: om-ai-lab/OVDEval, Evaluation.md at 8792575: annotations/SUBSET.json is a COCO instances file
(coco_file.py) whose images also have `text`, the names that hold, and `neg_text`, hard negatives; the
pictures are images/SUBSET/FILE_NAME. `path` is such a file, or the folder of all.

A sample asks for `text` and then `neg_text`, as the owner's eval_glip.py does; its source is the sub-set.

Assumed: celebrity, logo and landmark have `text` and `neg_text` as well (eval_glip.py asks for every category
of these files: mode vocabulary); where `text` is missing, the annotated names are the ones that hold.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Any, cast

from groundrl.config.registry import register
from groundrl.data.base import SampleSource, Split
from groundrl.data.coco_file import CocoEntry, CocoFile, read_coco
from groundrl.data.rows import FileConfig, Row, RowSamples, Skips
from groundrl.data.subsets import Subsets
from groundrl.errors import ConfigError, DataError
from groundrl.geometry.labels import normalise_label
from groundrl.types import LabeledBox, Task

logger = logging.getLogger(__name__)

SUBSETS = ("celebrity", "logo", "landmark", "color", "material", "position", "relationship", "negation")
ASSUMED = "%s: assumed to have `text` and `neg_text` in its images (docs/howto/data/ovdeval.md)"


class Mode(StrEnum):
    """Which names a sample asks for.

    all         those that hold in the image and its hard negatives
    positive    those that hold
    vocabulary  every category of the file
    """

    all = "all"
    positive = "positive"
    vocabulary = "vocabulary"


@register("dataset", "ovdeval")
@dataclass(kw_only=True, slots=True)
class OvdevalConfig(FileConfig):
    """OVDEval. `path`: SUBSET.json or the folder of these files; `mode`: which names are asked for.

    `images` is the folder that holds a folder for each sub-set (null: `images` beside the annotations').
    """

    mode: Mode = Mode.all

    def build(self, split: Split) -> SampleSource:
        """The samples of one sub-set, or of all, in the order of SUBSETS. Raises DataError, ConfigError."""
        own = split is Split.HELDOUT and self.heldout_path is not None
        path = Path(self.heldout_path if own and self.heldout_path else self.path)
        if split is Split.TRAIN and self.heldout_path == self.path:
            logger.warning("%s: the same images are trained and evaluated on", path)
        if not path.is_dir():
            return self._subset(self, split)
        files = [path / f"{name}.json" for name in SUBSETS if (path / f"{name}.json").is_file()]
        if not files:
            key = "dataset.heldout_path" if own else "dataset.path"
            raise ConfigError(key, "has no file of a sub-set", got=str(path), todo=f"e.g. {SUBSETS[0]}.json")
        parts: list[RowSamples] = []
        for file in files:
            at = {"heldout_path": str(file)} if own else {"path": str(file)}
            parts.append(self._subset(replace(self, train_size=None, **at), split))
        return Subsets(parts, self.train_size if split is Split.TRAIN else None)

    def _subset(self, config: OvdevalConfig, split: Split) -> RowSamples:
        file = config.file(split)
        if file.stem not in SUBSETS:
            problem = "is not named after a sub-set"
            raise ConfigError("dataset.path", problem, got=file.name, todo=f"use {', '.join(SUBSETS)}")
        held = split is Split.HELDOUT and config.heldout_images is not None
        given = config.heldout_images if held else config.images
        root = str((Path(given) if given is not None else file.parent.parent / "images") / file.stem)
        placed = replace(config, **({"heldout_images": root} if held else {"images": root}))
        logger.warning(ASSUMED, file)
        coco = read_coco(file)
        if coco.crowds:
            logger.warning("%s: %d crowd annotations were left out", file, coco.crowds)
        skips = Skips(self.on_error, file)
        rows = skips.rows(coco.entries, _Reader(self.mode, coco))
        samples = RowSamples(placed, split, rows, source=file.stem)
        skips.report()
        return samples


class _Reader:
    """Makes the row of one image."""

    def __init__(self, mode: Mode, coco: CocoFile) -> None:
        self.mode = mode
        self.coco = coco

    def __call__(self, item: object) -> Iterator[Row]:
        entry = cast("CocoEntry", item)
        image = self.coco.image(entry)
        fields: dict[str, Any] = dict(entry.image or {})
        annotated = tuple(dict.fromkeys(one.category for one in image.instances))
        names = annotated
        if "text" in fields:
            names = self._names(fields["text"], "text", image.number)
        if self.mode is Mode.vocabulary:
            names = self.coco.names
        elif self.mode is Mode.all:
            if "neg_text" not in fields:
                problem, todo = (
                    f"image {image.id} has no `neg_text`",
                    "use dataset.mode=vocabulary or positive",
                )
                raise DataError(self.coco.file, problem, row=image.number, todo=todo)
            held = {normalise_label(name) for name in names}
            hard = self._names(fields["neg_text"], "neg_text", image.number)
            if both := [name for name in hard if normalise_label(name) in held]:
                problem = f"{both[0]!r} of image {image.id} is in `text` and in `neg_text`"
                raise DataError(self.coco.file, problem, row=image.number, todo="a name holds or it does not")
            names = (*names, *hard)
        crowds = {normalise_label(name) for name in image.crowds.difference(annotated)}
        names = tuple(name for name in names if normalise_label(name) not in crowds)
        known = {normalise_label(name) for name in names}
        if lost := [name for name in annotated if normalise_label(name) not in known]:
            problem = f"{lost[0]!r} is annotated in image {image.id} but not in its `text`"
            raise DataError(self.coco.file, problem, row=image.number, todo="add it to `text`")
        if not names:
            raise DataError(
                self.coco.file, f"image {image.id} asks for nothing", row=image.number, todo="give it `text`"
            )
        yield Row(
            number=image.number,
            id=f"{self.coco.file.stem}:{image.id}",
            task=Task.ovd,
            images=(image.file_name,),
            targets=names,
            boxes=tuple(LabeledBox(xyxy=one.xyxy, label=one.category) for one in image.instances),
            key=image.file_name,
        )

    def _names(self, value: object, key: str, number: int) -> tuple[str, ...]:
        listed: list[Any] = value if isinstance(value, list) else [None]
        if not all(isinstance(name, str) and name.strip() for name in listed):
            raise DataError(self.coco.file, f"`{key}` is not a list of names", row=number, todo="write [...]")
        return tuple(listed)
