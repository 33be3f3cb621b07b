"""Greedy and optimal matching: ties, thresholds, and where the two differ."""

import itertools

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from groundrl.geometry.matching import greedy_match, hungarian_match


def test_greedy_takes_the_largest_first_and_hungarian_the_best_sum() -> None:
    iou = np.array([[0.9, 0.8], [0.8, 0.0]])
    assert greedy_match(iou, threshold=0.5) == [(0, 0)]
    assert hungarian_match(iou, threshold=0.5) == [(0, 1), (1, 0)]


def test_ties_go_to_the_smaller_row_then_column() -> None:
    assert greedy_match(np.full((2, 3), 0.7), threshold=0.5) == [(0, 0), (1, 1)]


def test_threshold_is_inclusive_and_zero_never_matches() -> None:
    iou = np.array([[0.5, 0.0], [0.0, np.nextafter(0.5, 0)]])
    assert greedy_match(iou, threshold=0.5) == [(0, 0)]
    assert hungarian_match(iou, threshold=0.5) == [(0, 0)]
    assert greedy_match(np.zeros((2, 2)), threshold=0.0) == []
    assert hungarian_match(np.zeros((2, 2)), threshold=0.0) == []


def test_empty_sides() -> None:
    for shape in ((0, 0), (0, 3), (3, 0)):
        assert greedy_match(np.zeros(shape), threshold=0.5) == []
        assert hungarian_match(np.zeros(shape), threshold=0.5) == []


@given(st.integers(1, 4), st.integers(1, 4), st.data())
def test_hungarian_is_optimal_and_both_are_one_to_one(rows, columns, data) -> None:
    values = data.draw(st.lists(st.floats(0, 1), min_size=rows * columns, max_size=rows * columns))
    iou = np.array(values).reshape(rows, columns)
    greedy, optimal = greedy_match(iou, threshold=0.3), hungarian_match(iou, threshold=0.3)
    for pairs in (greedy, optimal):
        assert len({row for row, _ in pairs}) == len({column for _, column in pairs}) == len(pairs)
        assert all(iou[pair] >= 0.3 for pair in pairs)
    allowed = np.where(iou >= 0.3, iou, 0.0)
    if rows > columns:
        allowed = allowed.T
    best = max(
        sum(allowed[i, j] for i, j in enumerate(order))
        for order in itertools.permutations(range(max(rows, columns)), min(rows, columns))
    )
    assert abs(sum(iou[pair] for pair in optimal) - best) < 1e-12
    assert sum(iou[pair] for pair in greedy) >= best / 2 - 1e-12
