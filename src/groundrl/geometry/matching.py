"""One-to-one matching of two sets of boxes, given their IoU matrix."""

from __future__ import annotations

from typing import cast

import numpy as np
from numpy.typing import NDArray

from groundrl.geometry.boxes import Float64

Pairs = list[tuple[int, int]]
"""(row, column) index pairs; no index occurs twice on its side."""


def greedy_match(iou: Float64, *, threshold: float) -> Pairs:
    """Repeatedly take the pair of largest IoU among what is left.

    iou [N, M]; only pairs with IoU >= `threshold` and IoU > 0 can match. Equal values are taken by the
    smaller row, then the smaller column, so the result does not depend on a sort's whims. Pairs come back
    in the order in which they were taken.
    """
    rows, columns = np.nonzero((iou >= threshold) & (iou > 0))
    order = np.lexsort((columns, rows, -iou[rows, columns]))
    used_rows: set[int] = set()
    used_columns: set[int] = set()
    pairs: Pairs = []
    for row, column in zip(rows[order].tolist(), columns[order].tolist(), strict=True):
        if row in used_rows or column in used_columns:
            continue
        used_rows.add(row)
        used_columns.add(column)
        pairs.append((row, column))
    return pairs


def hungarian_match(iou: Float64, *, threshold: float) -> Pairs:
    """The one-to-one matching of largest total IoU over pairs with IoU >= `threshold` and IoU > 0.

    iou [N, M]. Pairs come back sorted by row.
    """
    from scipy.optimize import linear_sum_assignment  # deferred: slow to import, rarely used

    allowed = (iou >= threshold) & (iou > 0)
    rows, columns = cast(
        "tuple[NDArray[np.int64], NDArray[np.int64]]",
        linear_sum_assignment(np.where(allowed, iou, 0.0), maximize=True),
    )
    pairs = zip(rows.tolist(), columns.tolist(), strict=True)
    return [(row, column) for row, column in pairs if allowed[row, column]]
