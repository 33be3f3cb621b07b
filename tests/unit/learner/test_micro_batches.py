"""Micro-batches: groups together, limits kept, the largest first; worked out by hand."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from groundrl.learner.micro_batches import Limit, micro_batches
from groundrl.models.forward import Row


def rows(*pairs: tuple[int, int]) -> list[Row]:
    """Rows from (prompt length, completion length); the same length is the same prompt."""
    return [
        Row(prompt=np.arange(p, dtype=np.int64), images=(), completion=np.zeros(c, dtype=np.int64))
        for p, c in pairs
    ]


MIXED = rows((10, 1), (20, 5), (10, 2), (20, 5), (10, 3), (30, 4))
"""Groups {0, 2, 4} of 10 + 6 tokens, {1, 3} of 20 + 10, {5} of 34."""


@pytest.mark.parametrize(
    ("limit", "expected"),
    [
        # {5} comes first (34 tokens), then {1, 3} (30), then {0, 2, 4} (16), each where there is room:
        # {5} and {1, 3} make 3 rows; {0, 2, 4} would make 6
        (Limit(rows=3), [[1, 3, 5], [0, 2, 4]]),
        (Limit(rows=6), [[0, 1, 2, 3, 4, 5]]),
        # pieces {5}, {1, 3}, {0, 2}, {4}; of 34, 30, 13 and 13 tokens. {5, 4} is padded: 2 x 34
        (Limit(rows=2), [[4, 5], [1, 3], [0, 2]]),
        (Limit(rows=1), [[5], [1], [3], [4], [2], [0]]),
        # {5} with {0, 2, 4} is 50, {1, 3} with them 46, {5} with {1, 3} 64
        (Limit(rows=1, tokens=50), [[0, 2, 4, 5], [1, 3]]),
        (Limit(rows=1, tokens=46), [[0, 1, 2, 3, 4], [5]]),
        (Limit(rows=1, tokens=64), [[1, 3, 5], [0, 2, 4]]),
        # 16 tokens: a row of 34 or 25 stands alone, 10 + 6 just fits
        (Limit(rows=9, tokens=16), [[5], [1], [3], [0, 2, 4]]),
        # padded: {1, 3} is 2 x 25, {0, 2, 4} is 3 x 13 and {5} 34
        (Limit(rows=9, tokens=50, shared=False), [[1, 3], [0, 2, 4], [5]]),
    ],
)
def test_by_hand(limit: Limit, expected: list[list[int]]) -> None:
    assert micro_batches(MIXED, limit) == expected


def test_images_tell_prompts_apart() -> None:
    one, two = object(), object()
    made = rows((5, 1), (5, 1), (5, 1), (5, 1))
    for row, image in zip(made, (one, two, one, two), strict=True):
        row.images = (image,)  # type: ignore[assignment]
    assert micro_batches(made, Limit(rows=2)) == [[0, 2], [1, 3]]


def test_no_rows() -> None:
    assert micro_batches([], Limit(rows=4)) == []


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(st.integers(1, 4), st.integers(0, 6)), min_size=1, max_size=24),
    st.integers(1, 5),
    st.none() | st.integers(1, 40),
    st.booleans(),
)
def test_every_row_once_and_no_limit_broken(pairs, most, tokens, shared) -> None:
    made = rows(*pairs)
    found = micro_batches(made, Limit(rows=most, tokens=tokens, shared=shared))
    assert sorted(n for batch in found for n in batch) == list(range(len(made)))
    assert all(batch == sorted(batch) for batch in found)
    costs = []
    for batch in found:
        prompts = {pairs[n][0] for n in batch}
        padded = len(batch) * max(sum(pairs[n]) for n in batch)
        packed = sum(prompts) + sum(pairs[n][1] for n in batch)
        costs.append(packed if shared and len(prompts) < len(batch) else padded)
        assert len(batch) == 1 or (costs[-1] <= tokens if tokens else len(batch) <= most)
    assert costs == sorted(costs, reverse=True)
