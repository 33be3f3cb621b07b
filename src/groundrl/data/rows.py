"""Rows of a data file on their way to samples: checked, split, counted, and only then opened.

A loader turns a file into `Row`s; this module does what is the same for all: images, boxes inside them, the
held-out split, what happens to a row that cannot be used.
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import cast

from groundrl.data.base import DatasetConfig, Split
from groundrl.data.images import image_size, open_bytes, open_image
from groundrl.data.overlap import image_id
from groundrl.data.targets import merge_targets
from groundrl.errors import ConfigError, DataError, NoFileError
from groundrl.types import LabeledBox, Message, Sample, Size, Task, Truth

logger = logging.getLogger(__name__)


class OnError(StrEnum):
    """What to do with a row that cannot be used. `skip` leaves it out, counts it and says so.

    With `skip` the headers of all images are looked at when the data is opened; one whose pixels turn out to
    be damaged later is an error all the same.
    """

    raise_ = "raise"
    skip = "skip"


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One sample before its images are opened.

    number   where it stands in its file, counted from 1: for messages to the user
    images   paths relative to the image root, or encoded images themselves, in order
    key      what decides its split where the file has none: rows with equal keys are held out together
    merged   targets that are one category were merged
    """

    number: int
    id: str
    task: Task
    images: tuple[str | bytes, ...] = ()
    question: str = ""
    targets: tuple[str, ...] = ()
    boxes: tuple[LabeledBox, ...] = ()
    answer: str | None = None
    messages: tuple[Message, ...] = ()
    key: str = ""
    merged: bool = False


@dataclass(kw_only=True, slots=True)
class FileConfig(DatasetConfig):
    """Settings of every data set that is read from files.

    path            the annotation file of the training split
    heldout_path    that of the held-out split (null: about one row in `heldout_every` of `path`)
    images          folder that image paths are relative to (null: the file's own)
    heldout_images  the same for the held-out split (null: as `images`)
    heldout_every   about one key in so many is held out, chosen by a digest of it, so that the split does not
                    change when rows are added or moved
    on_error        raise or skip (counted) where a row cannot be used
    """

    path: str = "???"
    heldout_path: str | None = None
    images: str | None = None
    heldout_images: str | None = None
    heldout_every: int = 10
    on_error: OnError = OnError.raise_

    def __post_init__(self) -> None:
        DatasetConfig.__post_init__(self)
        if self.heldout_every < 2:
            raise ConfigError("heldout_every", "must be >= 2", got=self.heldout_every, todo="e.g. 10")

    def file(self, split: Split) -> Path:
        """The annotation file of a split. Raises NoFileError when it is not there."""
        own = split is Split.HELDOUT and self.heldout_path is not None
        file = Path(self.heldout_path if own and self.heldout_path else self.path)
        if not file.is_file():
            key = "dataset.heldout_path" if own else "dataset.path"
            raise NoFileError(key, "no such file", got=str(file), todo="give the annotation file")
        return file

    def image_root(self, split: Split) -> Path:
        """The folder that a split's image paths are relative to."""
        if split is Split.HELDOUT and self.heldout_images is not None:
            return Path(self.heldout_images)
        return Path(self.images) if self.images is not None else self.file(split).parent


class Skips:
    """Runs what may refuse a row; raises or counts, as the user chose."""

    def __init__(self, on_error: OnError, file: Path) -> None:
        self.on_error = on_error
        self.file = file
        self.count = 0
        self.first = ""

    def rows(self, items: Iterable[object], read: Callable[[object], Iterable[Row]]) -> Iterator[Row]:
        """The rows that `read` makes of each item. Raises the DataError of a bad one, or counts it."""
        for item in items:
            try:
                made = list(read(item))
            except DataError as error:
                if self.on_error is OnError.raise_:
                    raise
                self.count += 1
                self.first = self.first or str(error)
                continue
            yield from made

    def report(self) -> None:
        """Say how many rows were left out."""
        if self.count:
            logger.warning("%s: %d rows were skipped; first: %s", self.file, self.count, self.first)


class RowSamples:
    """The samples of one split, in file order; images are opened when a sample is asked for."""

    def __init__(self, config: FileConfig, split: Split, rows: Iterable[Row], *, source: str) -> None:
        """`rows` of the split's file. Raises DataError when nothing is left of them."""
        self.config = config
        self.split = split
        self.source = source
        self.file = config.file(split)
        self.root = config.image_root(split)
        kept = list(rows)
        if config.heldout_path is None:
            held = split is Split.HELDOUT
            kept = [row for row in kept if is_heldout(row.key or row.id, config.heldout_every) == held]
        if split is Split.TRAIN and config.train_size is not None:
            kept = kept[: config.train_size]
        if config.on_error is OnError.skip:
            kept = _with_images(kept, self.root, self.file)
        if not kept:
            raise DataError(self.file, f"has no rows for the {split} split", todo="add rows")
        self.rows: Sequence[Row] = [_merged(row) for row in kept]
        if merged := [row.number for row in self.rows if row.merged]:
            text = "%s: targets that are one category were merged in %d rows, first in row %d"
            logger.warning(text, self.file, len(merged), merged[0])
        self.size: int | None = len(kept)
        self._tasks = frozenset(row.task for row in kept)
        digest = hashlib.sha256()
        for row in self.rows:
            digest.update(json.dumps(asdict(row), sort_keys=True, default=str).encode())
        self._fingerprint = digest.hexdigest()[:16]

    def tasks(self) -> frozenset[Task]:
        return self._tasks

    def fingerprint(self) -> str:
        return self._fingerprint

    def image_ids(self) -> frozenset[str]:
        """The images of all rows (overlap.py)."""
        return frozenset(image_id(image, self.root) for row in self.rows for image in row.images)

    def sample(self, index: int) -> Sample:
        return opened(self.rows[index], self.root, file=self.file, split=self.split, source=self.source)


def _merged(row: Row) -> Row:
    """The row with targets that are one category named once."""
    targets, dropped = merge_targets(row.targets)
    return replace(row, targets=targets, merged=True) if dropped else row


def _with_images(rows: Sequence[Row], root: Path, file: Path) -> list[Row]:
    """The rows whose images can be opened and hold their boxes, as the headers say; others are counted."""
    skips = Skips(OnError.skip, file)

    def looked(item: object) -> Iterable[Row]:
        row = cast("Row", item)
        sizes = [
            image_size(image, root, name=_name(image, number), file=file, row=row.number)
            for number, image in enumerate(row.images, start=1)
        ]
        check_boxes(row, sizes, file)
        return [row]

    kept = list(skips.rows(rows, looked))
    skips.report()
    return kept


def check_boxes(row: Row, sizes: Sequence[Size], file: Path) -> None:
    """Raise DataError for a box that is not inside its image."""
    for box in row.boxes:
        if box.image >= len(sizes):
            problem = f"box {list(box.xyxy)} is on image {box.image} of {len(sizes)}"
            raise DataError(file, problem, row=row.number, todo="images are counted from 0")
        width, height = sizes[box.image]
        x1, y1, x2, y2 = box.xyxy
        if not (0 <= x1 < x2 <= width and 0 <= y1 < y2 <= height):
            raise DataError(
                file,
                f"box {list(box.xyxy)} lies outside its {width} x {height} image",
                row=row.number,
                todo="boxes are xyxy in pixels of the upright image",
            )


def _name(image: str | bytes, number: int) -> str:
    return image if isinstance(image, str) else f"{number} (bytes)"


def opened(row: Row, root: Path, *, file: Path, split: Split, source: str) -> Sample:
    """The sample of a row, its images opened. Raises DataError naming file and row."""
    images = tuple(
        open_image(image, root, file=file, row=row.number)
        if isinstance(image, str)
        else open_bytes(image, name=_name(image, number), file=file, row=row.number)
        for number, image in enumerate(row.images, start=1)
    )
    check_boxes(row, [image.size for image in images], file)
    return Sample(
        id=row.id,
        task=row.task,
        images=images,
        truth=Truth(boxes=row.boxes, answer=row.answer),
        question=row.question,
        targets=row.targets,
        messages=row.messages,
        split=str(split),
        source=source,
    )


def is_heldout(key: str | bytes, every: int) -> bool:
    """Whether a row with this key belongs to the held-out split: about one in `every`, by a digest."""
    data = key.encode() if isinstance(key, str) else key
    return int.from_bytes(hashlib.sha256(data).digest()[:4], "big") % every == 0
