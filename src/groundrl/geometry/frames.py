"""Conversion between the space in which a model writes boxes and original pixels.

Each axis has its own factor, taken from the size the image processor actually produced (which differs from
the requested one: smart resize rounds each side to a multiple of the patch grid). Relative coordinates run
from 0 to 1000, and 1000 is exactly the edge of the image.
"""

from __future__ import annotations

from groundrl.types import XYXY, CoordinateSpace, ImageFrame, Size

REL_EDGE = 1000


def _unit(space: CoordinateSpace, frame: ImageFrame) -> Size:
    """The coordinates of the lower right image corner in `space`."""
    match space:
        case CoordinateSpace.PIXEL_ORIGINAL:
            return frame.original
        case CoordinateSpace.PIXEL_RESIZED:
            return frame.processed
        case CoordinateSpace.REL1000:
            return (REL_EDGE, REL_EDGE)


def _scale(xyxy: XYXY, source: Size, target: Size) -> XYXY:
    if source == target:
        return xyxy
    (sx, sy), (tx, ty) = source, target
    x1, y1, x2, y2 = xyxy
    return (x1 * tx / sx, y1 * ty / sy, x2 * tx / sx, y2 * ty / sy)


def to_original(xyxy: XYXY, space: CoordinateSpace, frame: ImageFrame) -> XYXY:
    """A box written in `space`, in pixels of the original image (not clipped)."""
    if space is CoordinateSpace.PIXEL_ORIGINAL:
        return xyxy
    return _scale(xyxy, _unit(space, frame), frame.original)


def point_to_original(
    xy: tuple[float, float], space: CoordinateSpace, frame: ImageFrame
) -> tuple[float, float]:
    """A point written in `space`, in pixels of the original image (not clipped)."""
    return to_original((*xy, *xy), space, frame)[:2]


def from_original(xyxy: XYXY, space: CoordinateSpace, frame: ImageFrame) -> XYXY:
    """A box in original pixels, written in `space` (floats: the caller decides how to round)."""
    return _scale(xyxy, frame.original, _unit(space, frame))


def unit_of(space: CoordinateSpace, frame: ImageFrame) -> tuple[float, float]:
    """How many original pixels, across and down, one unit of `space` is."""
    (width, height), (across, down) = frame.original, _unit(space, frame)
    return width / across, height / down


def clip(xyxy: XYXY, size: Size) -> XYXY:
    """The box cut to an image of `size`; a box that lies outside comes back with zero width or height."""
    width, height = size
    x1, y1, x2, y2 = xyxy
    if 0 <= x1 <= width and 0 <= y1 <= height and 0 <= x2 <= width and 0 <= y2 <= height:
        return xyxy
    return (
        min(max(x1, 0.0), float(width)),
        min(max(y1, 0.0), float(height)),
        min(max(x2, 0.0), float(width)),
        min(max(y2, 0.0), float(height)),
    )
