"""IoU by hand-computed values, and properties that hold for any coordinates."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from groundrl.geometry.boxes import area, as_array, iou, pairwise_iou

COORDINATE = st.floats(allow_nan=True, allow_infinity=True)
BOX = st.tuples(COORDINATE, COORDINATE, COORDINATE, COORDINATE)


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        ((0, 0, 10, 10), (0, 0, 10, 10), 1.0),
        ((0, 0, 10, 10), (5, 0, 15, 10), 50 / 150),
        ((0, 0, 10, 10), (9, 0, 19, 10), 10 / 190),  # one pixel of overlap counts
        ((0, 0, 10, 10), (10, 0, 20, 10), 0.0),  # half open: sharing an edge is no overlap
        ((0, 0, 100, 100), (25, 25, 75, 75), 0.25),
        ((0, 0, 0.5, 0.5), (0.25, 0, 0.75, 0.5), 1 / 3),  # no floor on areas
        ((0, 0, 100, 100), (10, 10, 110, 110), 8100 / 11900),
    ],
)
def test_iou_by_hand(first, second, expected) -> None:
    assert iou(first, second) == expected
    assert iou(second, first) == expected


@pytest.mark.parametrize(
    "degenerate",
    [
        (5, 5, 5, 5),
        (5, 5, 5, 9),
        (9, 9, 5, 5),  # inverted in both axes: a positive product of negative sides
        (9, 5, 5, 9),
        (math.nan, 0, 10, 10),
        (-math.inf, 0, math.inf, 10),
        (-math.inf, 0, 5, 10),
    ],
)
def test_a_degenerate_box_matches_nothing(degenerate) -> None:
    assert iou(degenerate, (0, 0, 10, 10)) == 0.0
    assert iou(degenerate, degenerate) == 0.0
    assert area(as_array([degenerate])).tolist() == [0.0]


def test_pairwise_shapes_and_values() -> None:
    first = as_array([(0, 0, 2, 2), (4, 4, 4, 8)])
    second = as_array([(0, 0, 2, 1), (1, 1, 3, 3), (0, 0, 2, 2)])
    assert pairwise_iou(first, second).tolist() == [[0.5, 1 / 7, 1.0], [0.0, 0.0, 0.0]]
    assert pairwise_iou(as_array([]), second).shape == (0, 3)
    assert pairwise_iou(first, as_array([])).shape == (2, 0)
    assert as_array([]).shape == (0, 4)


@given(st.lists(BOX, max_size=4), st.lists(BOX, max_size=4))
def test_any_coordinates_give_a_finite_iou_in_range(first, second) -> None:
    values = pairwise_iou(as_array(first), as_array(second))
    assert np.isfinite(values).all()
    assert ((values >= 0) & (values <= 1)).all()
    assert (values == pairwise_iou(as_array(second), as_array(first)).T).all()
