"""Box and point items, each accepted or refused with a reason.

Accepted shapes: an object `{"bbox_2d": [x1, y1, x2, y2], "label": "..."}` (points: `"point_2d": [x, y]`), a
list of such objects, and a bare list of coordinates (one item without a label) or a list of those. An object
may name the image it means, counted from 0, as `"image"`. One bad item does not spoil the others.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar, cast

from groundrl.parsing import payload as read
from groundrl.parsing.status import ParseStatus, RejectReason
from groundrl.types import XYXY


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelBox:
    """A valid box as the model wrote it, in the model's coordinate space."""

    xyxy: XYXY
    label: str
    image: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelPoint:
    """A valid point as the model wrote it, in the model's coordinate space."""

    xy: tuple[float, float]
    label: str
    image: int


T = TypeVar("T", ModelBox, ModelPoint)
Coordinates = TypeVar("Coordinates")


@dataclass(frozen=True, slots=True, kw_only=True)
class ItemScan(Generic[T]):
    """The valid items in order, a reason for each refused one, and how the payload as a whole was read."""

    status: ParseStatus
    items: tuple[T, ...] = ()
    rejected: tuple[RejectReason, ...] = ()


def _box(value: list[object]) -> XYXY | RejectReason:
    found = read.numbers(value, 4)
    if isinstance(found, RejectReason):
        return found
    x1, y1, x2, y2 = found
    if x1 > x2 or y1 > y2:
        return RejectReason.SWAPPED_CORNERS
    if x1 == x2 or y1 == y2:
        return RejectReason.ZERO_AREA
    return (x1, y1, x2, y2)


def _point(value: list[object]) -> tuple[float, float] | RejectReason:
    found = read.numbers(value, 2)
    return found if isinstance(found, RejectReason) else (found[0], found[1])


def _parts(
    value: object,
    key: str,
    coordinates: Callable[[list[object]], Coordinates | RejectReason],
    *,
    labelled: bool,
) -> tuple[Coordinates, str, int] | RejectReason:
    """Coordinates, label and image of one item, or why it is refused."""
    fields: dict[str, object]
    if isinstance(value, list):
        fields = {key: value}
    elif isinstance(value, dict):
        fields = cast("dict[str, object]", value)
    else:
        return RejectReason.NOT_AN_ITEM
    raw = fields.get(key)
    if not isinstance(raw, list):
        return RejectReason.MISSING_BOX
    found = coordinates(cast("list[object]", raw))
    if isinstance(found, RejectReason):
        return found
    label = read.label(fields.get("label"), required=labelled)
    if isinstance(label, RejectReason):
        return label
    image = read.image(fields.get("image", 0.0))
    if isinstance(image, RejectReason):
        return image
    return found, label, image


def _scan(payload: str, item: Callable[[object], T | RejectReason], *, salvage: bool) -> ItemScan[T]:
    loaded = read.load_items(payload, salvage=salvage)
    if loaded.status is not ParseStatus.OK:
        return ItemScan(status=loaded.status)
    scanned = [item(value) for value in loaded.values]
    rejected = [one for one in scanned if isinstance(one, RejectReason)]
    items = tuple(one for one in scanned if not isinstance(one, RejectReason))
    status = ParseStatus.ITEM_REJECTED if rejected else ParseStatus.OK
    if loaded.incomplete:
        rejected.append(RejectReason.INCOMPLETE)
        status = ParseStatus.SALVAGED if items else ParseStatus.BAD_JSON
    return ItemScan(status=status, items=items, rejected=tuple(rejected))


def read_boxes(payload: str, *, label_required: bool, salvage: bool = False) -> ItemScan[ModelBox]:
    """Read a payload of boxes; `label_required` for detection, where a box without a label claims nothing.

    `salvage` keeps the complete leading items of a list that was cut. Never raises; time and memory are
    linear in the payload.
    """

    def item(value: object) -> ModelBox | RejectReason:
        parts = _parts(value, "bbox_2d", _box, labelled=label_required)
        if isinstance(parts, RejectReason):
            return parts
        return ModelBox(xyxy=parts[0], label=parts[1], image=parts[2])

    return _scan(payload, item, salvage=salvage)


def read_points(payload: str, *, salvage: bool = False) -> ItemScan[ModelPoint]:
    """Read a payload of points, as `read_boxes`; a label is not required."""

    def item(value: object) -> ModelPoint | RejectReason:
        parts = _parts(value, "point_2d", _point, labelled=False)
        if isinstance(parts, RejectReason):
            return parts
        return ModelPoint(xy=parts[0], label=parts[1], image=parts[2])

    return _scan(payload, item, salvage=salvage)
