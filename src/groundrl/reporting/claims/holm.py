"""Holm's correction for several tests."""

from __future__ import annotations

from collections.abc import Sequence


def holm(values: Sequence[float]) -> list[float]:
    """Adjusted p-values in the order given; those below alpha are rejected together at level alpha.

    The k-th smallest of m is multiplied by m - k + 1, no adjusted value is below the one before it, none is
    above 1 (Holm 1979, A simple sequentially rejective multiple test procedure). A test without a result
    enters with p = 1: the family is what was declared, not what was run.
    """
    order = sorted(range(len(values)), key=lambda index: values[index])
    adjusted = [1.0] * len(values)
    running = 0.0
    for rank, index in enumerate(order):
        running = max(running, min(1.0, (len(values) - rank) * values[index]))
        adjusted[index] = running
    return adjusted
