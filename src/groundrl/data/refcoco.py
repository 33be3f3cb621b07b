"""`dataset=refcoco`: referring expressions of RefCOCO, RefCOCO+ and RefCOCOg, and files written like them.

format=release (refcoco_release.py): refs(SPLIT_BY).p with instances.json, as lichengunc/refer reads them.
format=json (refcoco_json.py): a list of objects, one a box, as VLM-R1 publishes RefCOCO/+/g, RefGTA and
LISA-Grounding.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path

from groundrl.config.registry import register
from groundrl.data.base import Split
from groundrl.data.refcoco_json import BoxOrder, ExpressionRecords
from groundrl.data.refcoco_release import Release
from groundrl.data.rows import FileConfig, RowSamples, Skips
from groundrl.errors import ConfigError
from groundrl.types import Task

logger = logging.getLogger(__name__)

SOURCE = "refcoco"
TASKS = (Task.rec, Task.point)


class Format(StrEnum):
    """How a file is written."""

    release = "release"
    json = "json"


class Sentences(StrEnum):
    """Which sentences of an object become samples."""

    all = "all"
    first = "first"


@register("dataset", "refcoco")
@dataclass(kw_only=True, slots=True)
class RefcocoConfig(FileConfig):
    """Referring expressions, one sample a sentence.

    task           rec: answer with the box; point: answer with a point inside it
    format         release or json
    sentences      all, or the first of each object
    instances      release: the COCO instances file (null: instances.json beside the refs)
    train_split    release: split that is trained on
    heldout_split  release: split that is held out: val, testA, testB, test
    box_order      json: xyxy or xywh
    """

    task: Task = Task.rec
    format: Format = Format.release
    sentences: Sentences = Sentences.all
    instances: str | None = None
    train_split: str = "train"
    heldout_split: str = "val"
    box_order: BoxOrder = BoxOrder.xyxy

    def __post_init__(self) -> None:
        FileConfig.__post_init__(self)
        if self.task not in TASKS:
            problem, todo = "has no such samples", f"use one of {', '.join(TASKS)} (reward=iou_rec)"
            raise ConfigError("task", problem, got=str(self.task), todo=todo)
        if self.format is Format.release:
            self._only("box_order", self.box_order is BoxOrder.xyxy, Format.json)
            return
        self._only("instances", self.instances is None, Format.release)
        self._only("train_split", self.train_split == "train", Format.release)
        self._only("heldout_split", self.heldout_split == "val", Format.release)

    def build(self, split: Split) -> RowSamples:
        """The samples of a split. Raises DataError for a file or a row that cannot be used."""
        file = self.file(split)
        skips = Skips(self.on_error, file)
        first = self.sentences is Sentences.first
        config = self
        if self.format is Format.release:
            name = self.heldout_split if split is Split.HELDOUT else self.train_split
            release = Release(file, self._instances(file), task=self.task, first_only=first)
            rows = skips.rows(release.refs_of(name), release.rows)
            config = replace(
                self, heldout_path=self.heldout_path or self.path
            )  # the file says which is which
        else:
            logger.warning("%s: assumed to be written as VLM-R1's (docs/howto/data/refcoco.md)", file)
            records = ExpressionRecords(file, task=self.task, order=self.box_order, first_only=first)
            rows = skips.rows(records.records, records.rows)
        samples = RowSamples(config, split, rows, source=SOURCE)
        skips.report()
        return samples

    def _instances(self, refs: Path) -> Path:
        file = Path(self.instances) if self.instances is not None else refs.with_name("instances.json")
        if not file.is_file():
            raise ConfigError(
                "dataset.instances", "no such file", got=str(file), todo="give the release's instances.json"
            )
        return file

    def _only(self, key: str, unset: bool, needed: Format) -> None:
        if not unset:
            problem = f"would be ignored: only dataset.format={needed} has it"
            raise ConfigError(key, problem, got=str(getattr(self, key)), todo="remove it")
