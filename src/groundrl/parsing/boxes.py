"""Box and point items, each accepted or refused with a reason.

Accepted shapes: an object `{"bbox_2d": [x1, y1, x2, y2], "label": "..."}` (points: `"point_2d": [x, y]`), a
list of such objects, and a bare list of coordinates (one item without a label) or a list of those. An object
may name the image it means, counted from 0, as `"image"`. One bad item does not spoil the others.

This runs on every item of every completion: `type(x) is RejectReason` is several times faster than
`isinstance`, which an enum's metaclass makes slow.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from groundrl.parsing import payload as read
from groundrl.parsing.status import ParseStatus, RejectReason
from groundrl.types import XYXY, LabeledBox, LabeledPoint

XY = tuple[float, float]
T = TypeVar("T", LabeledBox, LabeledPoint)
Place = TypeVar("Place", XYXY, XY)
LARGEST = 10**read.MAX_NUMBER_CHARS
_PLAIN = frozenset({int, float})


@dataclass(frozen=True, slots=True)
class ItemScan(Generic[T]):
    """The valid items in order, a reason for each refused one, and how the payload as a whole was read."""

    status: ParseStatus
    items: tuple[T, ...] = ()
    rejected: tuple[RejectReason, ...] = ()


def box_as_written(xyxy: XYXY, label: str, image: int) -> LabeledBox:
    """A box whose coordinates stay in the model's own space."""
    return LabeledBox(xyxy, label, image)


def point_as_written(xy: XY, label: str, image: int) -> LabeledPoint:
    """A point whose coordinates stay in the model's own space."""
    return LabeledPoint(xy, label, image)


def _box(value: list[Any]) -> XYXY | RejectReason:
    if len(value) == 4 and _PLAIN.issuperset(map(type, value)):
        x1, y1, x2, y2 = value
        if -LARGEST < x1 < x2 < LARGEST and -LARGEST < y1 < y2 < LARGEST:
            return (float(x1), float(y1), float(x2), float(y2))
    found = read.numbers(value, 4)
    if type(found) is RejectReason:
        return found
    x1, y1, x2, y2 = found
    if x1 > x2 or y1 > y2:
        return RejectReason.SWAPPED_CORNERS
    if x1 == x2 or y1 == y2:
        return RejectReason.ZERO_AREA
    return (x1, y1, x2, y2)


def _point(value: list[Any]) -> tuple[float, float] | RejectReason:
    found = read.numbers(value, 2)
    return found if type(found) is RejectReason else (found[0], found[1])


def _item(
    value: Any,
    key: str,
    coordinates: Callable[[list[Any]], Place | RejectReason],
    make: Callable[[Place, str, int], T | RejectReason],
    *,
    labelled: bool,
) -> T | RejectReason:
    """One item, or why it is refused."""
    image: int | RejectReason = 0
    kind = type(value)
    if kind is dict:
        raw, name = value.get(key), value.get("label")
        if "image" in value:
            image = read.image(value["image"])
    elif kind is list:
        raw, name = value, None
    else:
        return RejectReason.NOT_AN_ITEM
    if type(raw) is not list:
        return RejectReason.MISSING_BOX
    found = coordinates(raw)
    if type(found) is RejectReason:
        return found
    label = read.label(name, required=labelled)
    if type(label) is RejectReason:
        return label
    return image if type(image) is RejectReason else make(found, label, image)


def _scan(
    payload: str,
    key: str,
    coordinates: Callable[[list[Any]], Place | RejectReason],
    make: Callable[[Place, str, int], T | RejectReason],
    *,
    labelled: bool,
    salvage: bool,
) -> ItemScan[T]:
    loaded = read.load_items(payload, salvage=salvage)
    if loaded.status is not ParseStatus.OK:
        return ItemScan(loaded.status)
    items: list[T] = []
    rejected: list[RejectReason] = []
    for value in loaded.values:
        one = _item(value, key, coordinates, make, labelled=labelled)
        if type(one) is RejectReason:
            rejected.append(one)
        else:
            items.append(one)
    status = ParseStatus.ITEM_REJECTED if rejected else ParseStatus.OK
    if loaded.incomplete:
        rejected.append(RejectReason.INCOMPLETE)
        status = ParseStatus.SALVAGED if items else ParseStatus.BAD_JSON
    return ItemScan(status, tuple(items), tuple(rejected))


def read_boxes(
    payload: str,
    *,
    label_required: bool,
    salvage: bool = False,
    make: Callable[[XYXY, str, int], LabeledBox | RejectReason] = box_as_written,
) -> ItemScan[LabeledBox]:
    """Read a payload of boxes; `label_required` for detection, where a box without a label claims nothing.

    `salvage` keeps the complete leading items of a list that was cut; `make` places a box, or refuses it.
    Never raises; time and memory are linear in the payload.
    """
    return _scan(payload, "bbox_2d", _box, make, labelled=label_required, salvage=salvage)


def read_points(
    payload: str,
    *,
    salvage: bool = False,
    make: Callable[[XY, str, int], LabeledPoint | RejectReason] = point_as_written,
) -> ItemScan[LabeledPoint]:
    """Read a payload of points, as `read_boxes`; a label is not required."""
    return _scan(payload, "point_2d", _point, make, labelled=False, salvage=salvage)
