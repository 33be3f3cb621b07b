"""Which groups carry a signal, and the walk over them that every group-wise advantage shares.

A group counts with at least two valid (finite) rewards. Rewards whose spread is float64 rounding (1e-12 of
the largest magnitude, or of 1) count as equal: 0.1 + 0.2 and 0.3 are no signal, and Adam would blow their
residue up.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray

from groundrl.advantages.base import Assigned

ROUNDING = 1e-12
"""Relative spread of rewards below which a group has none."""


def has_spread(values: NDArray[np.float64]) -> bool:
    """Whether finite rewards [n >= 1] differ by more than rounding."""
    return bool(values.max() - values.min() > ROUNDING * max(1.0, np.abs(values).max()))


def measured_groups(
    rewards: NDArray[np.float64], groups: NDArray[np.int64]
) -> Iterator[tuple[int, NDArray[np.intp]]]:
    """(group, its rows with a valid reward) of every group that has at least two of them."""
    for group in np.unique(groups):
        rows = np.flatnonzero((groups == group) & np.isfinite(rewards))
        if len(rows) >= 2:
            yield int(group), rows


def groups_with_signal(rewards: NDArray[np.float64], groups: NDArray[np.int64]) -> set[int]:
    """The groups whose valid rewards differ; rewards and groups [B] as in `Advantage.assign`."""
    return {group for group, rows in measured_groups(rewards, groups) if has_spread(rewards[rows])}


def assign_by_group(
    rewards: NDArray[np.float64],
    groups: NDArray[np.int64],
    rule: Callable[[NDArray[np.float64]], NDArray[np.float64]],
) -> Assigned:
    """`rule` maps the valid rewards [n >= 2] of a group with spread to their advantages; all else gets 0."""
    advantages = np.zeros(len(rewards))
    measured = flat = 0
    for _, rows in measured_groups(rewards, groups):
        measured += 1
        if has_spread(rewards[rows]):
            advantages[rows] = rule(rewards[rows])
        else:
            flat += 1
    return Assigned(advantages=advantages, zero_spread=flat / measured if measured else 1.0)
