"""A COCO instances file: images with their boxes, checked.

Format: cocodataset/cocodataset.github.io, dataset/format-data.htm, "Object Detection": `images` (id, width,
height, file_name), `categories` (id, name), `annotations` (id, image_id, category_id, bbox, iscrowd), bbox =
[x, y, width, height] in pixels from the top left corner, counted from 0.

Assumed: ids may be texts as well as integers, and 7 and "7" are one id; a missing iscrowd is 0 (the format
says so of stuff annotations); a box may end up to one pixel outside its image by rounding and is clipped;
categories whose names are one label are one category.
"""

from __future__ import annotations

import json
import logging
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any, cast

from groundrl.data.coco_filters import Instance
from groundrl.errors import DataError
from groundrl.geometry.labels import normalise_label
from groundrl.types import XYXY, Size

logger = logging.getLogger(__name__)

Object = Mapping[str, Any]
REMEMBERED = 64 * 2**20
"""Bytes up to which a file is kept in memory."""
ROUNDING = 1.0
"""Pixels by which a box may end outside its image."""
PARTS = ("images", "annotations", "categories")
ORDER = "boxes are [x, y, width, height] in pixels; is the order [x1, y1, x2, y2]?"


@dataclass(frozen=True, slots=True, kw_only=True)
class CocoImage:
    """One checked image. `crowds`: categories of which it has a crowd region, whose boxes are left out."""

    number: int
    id: str
    file_name: str
    size: Size
    instances: tuple[Instance, ...]
    crowds: frozenset[str]


@dataclass(slots=True, kw_only=True)
class CocoEntry:
    """An unchecked image (None: annotations of an image that is not there) with its annotations.

    `number` counts from 1 in `images`, or in `annotations` where there is no image.
    """

    number: int
    image: Object | None
    annotations: list[Object] = field(default_factory=list[Object])


class CocoFile:
    """The content of one file, read whole. `names` are the category names in file order."""

    def __init__(self, file: Path) -> None:
        """Raises DataError for a file that is no COCO file or in which most boxes are not xywh."""
        self.file = file
        images, annotations, categories = _parts(file)
        self.names, self._category = self._categories(categories)
        self._repeated = {
            key for key, count in Counter(_id(a.get("id")) for a in annotations).items() if count > 1
        }
        self.entries = self._grouped(images, annotations)
        self.crowds = sum(_is_crowd(one) for one in annotations)
        self._check_order()

    def image(self, entry: CocoEntry) -> CocoImage:
        """The checked image. Raises DataError naming its row when it or one of its annotations is wrong."""
        if entry.image is None:
            image = entry.annotations[0].get("image_id")
            raise self._bad(entry, f"annotation is of image {image!r}, which is not in `images`", "remove it")
        key, size = _id(entry.image.get("id")), _size(entry.image)
        name = entry.image.get("file_name")
        if not key:
            raise self._bad(entry, "image has no `id`", "give it an integer or a text")
        if size is None:
            raise self._bad(entry, f"image {key} has no `width` and `height`", "write whole pixels > 0")
        if not isinstance(name, str) or not name.strip():
            raise self._bad(entry, f"image {key} has no `file_name`", "name a file in the image folder")
        instances: list[Instance] = []
        crowds: set[str] = set()
        for annotation in entry.annotations:
            category = self._category.get(_id(annotation.get("category_id")))
            label = f"annotation {annotation.get('id')!r} of image {key}"
            if category is None:
                found = annotation.get("category_id")
                raise self._bad(entry, f"{label} has unknown category_id {found!r}", "see `categories`")
            if annotation.get("iscrowd", 0) not in (0, 1):
                raise self._bad(entry, f"{label} has iscrowd {annotation['iscrowd']!r}", "use 0 or 1")
            if _is_crowd(annotation):
                crowds.add(category)
                continue
            own = _id(annotation.get("id"))
            if not own or own in self._repeated:
                raise self._bad(entry, f"{label} has no `id` of its own", "number the annotations")
            xyxy = _xyxy(annotation.get("bbox"), size)
            if xyxy is None:
                problem = (
                    f"{label} has bbox {annotation.get('bbox')!r}, which is no box in {size[0]} x {size[1]}"
                )
                raise self._bad(entry, problem, ORDER)
            instances.append(Instance(own, category, xyxy))
        return CocoImage(
            number=entry.number,
            id=key,
            file_name=name,
            size=size,
            instances=tuple(instances),
            crowds=frozenset(crowds),
        )

    def _bad(self, entry: CocoEntry, problem: str, todo: str) -> DataError:
        return DataError(self.file, problem, row=entry.number, todo=todo)

    def _categories(self, categories: list[Object]) -> tuple[tuple[str, ...], dict[str, str]]:
        first: dict[str, str] = {}
        by_id: dict[str, str] = {}
        for number, category in enumerate(categories, start=1):
            key, name = _id(category.get("id")), category.get("name")
            if not key or not isinstance(name, str) or not name.strip():
                raise DataError(self.file, f"category {number} has no `id` and `name`", todo="give both")
            if key in by_id:
                raise DataError(self.file, f"category id {key} occurs twice", todo="number the categories")
            by_id[key] = first.setdefault(normalise_label(name), name)
            if by_id[key] != name:
                logger.warning("%s: category %r is taken to be %r", self.file, name, by_id[key])
        if not first:
            raise DataError(self.file, "has no categories", todo="list them under `categories`")
        return tuple(first.values()), by_id

    def _grouped(self, images: list[Object], annotations: list[Object]) -> list[CocoEntry]:
        entries = [CocoEntry(number=number, image=image) for number, image in enumerate(images, start=1)]
        by_id: dict[str, CocoEntry] = {}
        for entry, image in zip(entries, images, strict=True):
            key = _id(image.get("id"))
            if not key:
                continue
            if key in by_id:
                problem = f"image id {key} is that of image {by_id[key].number}"
                raise self._bad(entry, problem, "number the images")
            by_id[key] = entry
        for number, annotation in enumerate(annotations, start=1):
            key = _id(annotation.get("image_id"))
            if key in by_id:
                by_id[key].annotations.append(annotation)
            else:
                entries.append(CocoEntry(number=number, image=None, annotations=[annotation]))
        return entries

    def _check_order(self) -> None:
        """Refuse a file in which most boxes are not xywh inside their image."""
        wrong = total = 0
        for entry in self.entries:
            size = _size(entry.image) if entry.image is not None else None
            if size is not None:
                boxes = [one.get("bbox") for one in entry.annotations if not _is_crowd(one)]
                total += len(boxes)
                wrong += sum(_xyxy(box, size) is None for box in boxes)
        if 2 * wrong > total:
            raise DataError(self.file, f"{wrong} of {total} boxes do not lie in their image", todo=ORDER)


def read_coco(file: Path) -> CocoFile:
    """The file, remembered while it does not change if it is small: a suite reads one in several modes."""
    state = file.stat()
    if state.st_size > REMEMBERED:
        return CocoFile(file)
    return _read(str(file), state.st_mtime_ns, state.st_size)


@lru_cache(maxsize=2)
def _read(file: str, modified: int, size: int) -> CocoFile:
    return CocoFile(Path(file))


def _parts(file: Path) -> tuple[list[Object], list[Object], list[Object]]:
    """The three lists of objects that are read."""
    try:
        content: object = json.loads(file.read_text("utf-8"))
    except UnicodeDecodeError as error:
        raise DataError(file, f"is not UTF-8 ({error.reason})", todo="convert it to UTF-8") from None
    except (ValueError, RecursionError) as error:
        raise DataError(file, f"is not JSON ({error})", todo="give a COCO instances file") from None
    if not isinstance(content, dict):
        problem = f"is a {type(content).__name__}, not an object"
        raise DataError(file, problem, todo="give a COCO instances file")
    whole = cast("dict[str, Any]", content)
    for name in PARTS:
        part = whole.get(name)
        if not isinstance(part, list) or not all(isinstance(one, dict) for one in cast("list[Any]", part)):
            raise DataError(file, f"`{name}` is not a list of objects", todo="give a COCO instances file")
    return whole["images"], whole["annotations"], whole["categories"]


def _id(value: object) -> str:
    """The id as a text; empty where it is neither an integer nor a text."""
    return str(value).strip() if isinstance(value, (int, str)) and not isinstance(value, bool) else ""


def _is_crowd(annotation: Object) -> bool:
    return annotation.get("iscrowd", 0) == 1


def _size(image: Object) -> Size | None:
    """(width, height) where both are whole pixels."""
    width, height = image.get("width"), image.get("height")
    if type(width) is int and type(height) is int and width > 0 and height > 0:
        return width, height
    return None


def _xyxy(bbox: object, size: Size) -> XYXY | None:
    """The box in corners, clipped by at most ROUNDING; None where it is not xywh inside `size`."""
    if not isinstance(bbox, list):
        return None
    numbers = cast("list[Any]", bbox)
    # the comparison with a bound refuses NaN, infinity and integers too large for a float
    if len(numbers) != 4 or not all(
        isinstance(v, (int, float)) and not isinstance(v, bool) and -1e9 < v < 1e9 for v in numbers
    ):
        return None
    x, y, width, height = (float(v) for v in numbers)
    x2, y2 = x + width, y + height
    if min(x, y) < -ROUNDING or x2 > size[0] + ROUNDING or y2 > size[1] + ROUNDING:
        return None
    box = max(x, 0.0), max(y, 0.0), min(x2, float(size[0])), min(y2, float(size[1]))
    return box if width > 0 and height > 0 and box[0] < box[2] and box[1] < box[3] else None
