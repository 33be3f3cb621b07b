"""Intersection over union of xyxy boxes, in float64.

Boxes are half open: [0, 0, 2, 2] covers four pixels and has area 4, so there is no "+1" anywhere and no
minimum overlap. A degenerate box (zero or negative width or height, or a coordinate that is not finite) has
area 0 and IoU 0 with everything, itself included; nothing here raises on a coordinate's value.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from groundrl.types import XYXY

Float64 = NDArray[np.float64]


def as_array(boxes: Iterable[XYXY]) -> Float64:
    """Boxes as a float64 matrix [N, 4]; [0, 4] for no boxes."""
    return np.asarray(list(boxes), dtype=np.float64).reshape(-1, 4)


def area(boxes: Float64) -> Float64:
    """Areas [N] in square pixels of boxes [N, 4]; 0 where a side is not positive or not finite."""
    sides = boxes[:, 2:] - boxes[:, :2]
    proper = (sides > 0).all(axis=1) & np.isfinite(boxes).all(axis=1)
    return np.where(proper, sides[:, 0] * sides[:, 1], 0.0)


def pairwise_iou(first: Float64, second: Float64) -> Float64:
    """IoU matrix [N, M] of boxes [N, 4] and [M, 4], every value finite and in [0, 1]."""
    with np.errstate(all="ignore"):
        low = np.maximum(first[:, None, :2], second[None, :, :2])
        high = np.minimum(first[:, None, 2:], second[None, :, 2:])
        sides = np.maximum(high - low, 0.0)
        overlap = sides[..., 0] * sides[..., 1]
        areas = area(first)[:, None], area(second)[None, :]
        union = areas[0] + areas[1] - overlap
        ratio = overlap / union
    proper = (areas[0] > 0) & (areas[1] > 0) & (overlap > 0) & np.isfinite(ratio)
    return np.where(proper, ratio, 0.0)


def iou(first: XYXY, second: XYXY) -> float:
    """IoU of two boxes, in [0, 1]."""
    return float(pairwise_iou(as_array([first]), as_array([second]))[0, 0])
