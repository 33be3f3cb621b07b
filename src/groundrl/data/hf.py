"""`dataset=hf`: a data set of the Hugging Face hub, or a local folder, Parquet or Arrow file.

What the library `datasets` (huggingface/datasets, 4 or newer) can load without a script: folders and hub
repositories of Parquet, Arrow, JSON, CSV or images, single .parquet and .arrow files, and folders written by
`save_to_disk`. The columns are named as for dataset=qa; tasks with boxes name theirs besides.

    boxes    [x1, y1, x2, y2], a list of these, or of {"bbox_2d": [...], "label": "..."}
    targets  a list of category names (ovd)

A table is memory-mapped: nothing but the places of its rows is kept, and an image is decoded when its sample
is asked for. A stream is read forward and never held.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from groundrl.config.registry import register
from groundrl.data.base import DatasetConfig, Split
from groundrl.data.columns import Columns
from groundrl.data.hf_library import Place, hf_library, undecoded
from groundrl.data.hf_split import HfSplit
from groundrl.data.hf_stream import HfStream
from groundrl.data.hf_table import HfTable
from groundrl.data.refcoco_json import BoxOrder
from groundrl.data.rows import OnError
from groundrl.errors import ConfigError
from groundrl.parsing.answer import LOCATING
from groundrl.types import Task

logger = logging.getLogger(__name__)


@register("dataset", "hf")
@dataclass(kw_only=True, slots=True)
class HfConfig(DatasetConfig):
    """Settings of data that the library `datasets` loads.

    path           OWNER/NAME on the hub, or a local folder or file
    name           its configuration (null: the only or default one)
    train_split    split to train on
    heldout_split  split to evaluate on (null: about one row in `heldout_every` of `train_split`, chosen by a
                   digest of its images, or of the question where there are none)
    streaming      read forward instead of preparing the whole table
    images         folder that image paths are relative to (null: the local folder, or the library's cache)
    on_error       raise or skip (counted) where a row cannot be used
    task           what rows without options ask for
    question_key   column of the question (not read for ovd)
    answer_key     column of the truth (not read for tasks with boxes)
    image_key      column of the image or the list of images (null: there is none)
    options_key    column of the options (null: there is none); rows with options are mcq
    boxes_key      column of the boxes, for rec, point and ovd only
    targets_key    column of the categories asked for, for ovd only
    box_order      xyxy or xywh, in pixels
    """

    path: str = "???"
    name: str | None = None
    train_split: str = "train"
    heldout_split: str | None = None
    heldout_every: int = 10
    streaming: bool = False
    images: str | None = None
    on_error: OnError = OnError.raise_
    task: Task = Task.numeric
    question_key: str = "question"
    answer_key: str = "answer"
    image_key: str | None = "image"
    options_key: str | None = None
    boxes_key: str | None = None
    targets_key: str | None = None
    box_order: BoxOrder = BoxOrder.xyxy

    def __post_init__(self) -> None:
        DatasetConfig.__post_init__(self)
        if self.heldout_every < 2:
            raise ConfigError("heldout_every", "must be >= 2", got=self.heldout_every, todo="e.g. 10")
        if self.streaming and self.train_size is not None:
            todo = "use dataset.streaming=false, or null"
            raise ConfigError("train_size", "a stream has no size", got=self.train_size, todo=todo)

    def build(self, split: Split) -> HfTable | HfStream:
        """The samples of a split. Raises ConfigError or DataError."""
        self._check_columns()
        library = hf_library(self.path)
        tables = Place(path=self.path, name=self.name, streaming=self.streaming).tables(library)
        own = split is Split.HELDOUT and self.heldout_split is not None
        setting = "heldout_split" if own else "train_split"
        wanted = self.heldout_split if own and self.heldout_split else self.train_split
        table = _chosen(tables, setting, wanted)
        columns = Columns(
            task=self.task,
            question=self.question_key,
            answer=self.answer_key,
            image=self.image_key,
            options=self.options_key,
            boxes=self.boxes_key,
            targets=self.targets_key,
            order=self.box_order,
        )
        opened = HfSplit(
            table=undecoded(library, _selected(table, columns)),
            file=Path(f"{self.path}:{wanted}"),
            root=self._root(library),
            split=split,
            source=Path(self.path).name,
            columns=columns,
            heldout_every=self.heldout_every if self.heldout_split is None else None,
            on_error=self.on_error,
        )
        assumed = f"options are in order; boxes are {self.box_order} in pixels of the upright image"
        logger.warning("%s: assumed: %s", opened.file, assumed)
        if self.streaming:
            return HfStream(opened)
        return HfTable(opened, self.train_size if split is Split.TRAIN else None)

    def _root(self, library: Any) -> Path:
        if self.images is not None:
            return Path(self.images)
        local = Path(self.path)
        if local.exists():
            return local if local.is_dir() else local.parent
        return Path(library.config.HF_CACHE_HOME)

    def _check_columns(self) -> None:
        """Each task has its columns and no others."""
        locating = self.task in LOCATING
        for setting, wanted, why in (
            ("boxes_key", locating, "boxes"),
            ("targets_key", self.task is Task.ovd, "categories asked for"),
        ):
            given: str | None = getattr(self, setting)
            if wanted and given is None:
                raise ConfigError(
                    f"dataset.{setting}", f"task {self.task} needs a column of {why}", todo="name it"
                )
            if not wanted and given is not None:
                todo = "remove it, or choose another task"
                raise ConfigError(f"dataset.{setting}", f"task {self.task} reads none", got=given, todo=todo)
        if locating and self.options_key is not None:
            todo = "remove it, or choose task=mcq"
            raise ConfigError(
                "dataset.options_key", f"task {self.task} reads none", got=self.options_key, todo=todo
            )
        if locating and self.image_key is None:
            raise ConfigError("dataset.image_key", f"task {self.task} needs images", todo="name their column")


def _chosen(tables: Mapping[str, Any], setting: str, split: str) -> Any:
    """The table of a split. A lone one that save_to_disk stored without a name is that of `train_split`."""
    if set(tables) == {""}:
        if setting == "heldout_split":
            problem, todo = "the folder holds a single table", "use null"
            raise ConfigError(f"dataset.{setting}", problem, got=split, todo=todo)
        return tables[""]
    if split not in tables:
        todo = f"choose one of {', '.join(tables)}"
        raise ConfigError(f"dataset.{setting}", "no such split", got=split, todo=todo)
    return tables[split]


def _selected(table: Any, columns: Columns) -> Any:
    """`table` with only the columns that are read. Raises ConfigError for one that it lacks."""
    names: list[str] = list(table.column_names or next(iter(table), {}))
    for setting, column in columns.used().items():
        if column not in names:
            todo = f"the columns are {', '.join(names)}"
            raise ConfigError(f"dataset.{setting}", "no such column", got=column, todo=todo)
    used = {*columns.used().values(), "id"}
    return table.select_columns([name for name in names if name in used])
