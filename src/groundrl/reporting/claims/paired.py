"""A paired comparison over seeds."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from groundrl.reporting.seeds import t_interval

LEAST_SEEDS = 3
_ROUNDING = 1e-9


@dataclass(frozen=True, slots=True, kw_only=True)
class Paired:
    """`a - b` per seed: its mean, interval, and one-sided p-values of "above 0" and "below 0".

    `exact` says that all differences are the same, so that t is not defined and the sign test stands in.
    """

    effect: float
    low: float
    high: float
    greater: float
    less: float
    n: int
    exact: bool = False


def paired(a: Sequence[float], b: Sequence[float], *, alpha: float) -> Paired:
    """One-sided paired t tests in both directions (Student 1908), and the interval of 1 - alpha.

    a, b   values of the same seeds in the same order, LEAST_SEEDS or more
    p      P(T > t) and P(T < t) for T of n - 1 degrees of freedom, t = mean / (s / root n)

    Where all differences are equal (to rounding) s is 0: p is then the sign test's, 2^-n in the direction of
    the difference and 1 in the other; without a difference both are 1. Raises ValueError on fewer seeds.
    """
    from scipy.stats import t

    n = len(a)
    if n < LEAST_SEEDS:
        raise ValueError(f"a paired test needs {LEAST_SEEDS} seeds, got {n}")
    differences = [x - y for x, y in zip(a, b, strict=True)]
    mean = math.fsum(differences) / n
    low, high = t_interval(differences, level=1 - alpha)
    size = max(abs(value) for value in (*a, *b))
    if max(differences) - min(differences) <= _ROUNDING * size:
        none = abs(mean) <= _ROUNDING * size
        return Paired(
            effect=mean,
            low=low,
            high=high,
            greater=0.5**n if mean > 0 and not none else 1.0,
            less=0.5**n if mean < 0 and not none else 1.0,
            n=n,
            exact=True,
        )
    error = math.sqrt(math.fsum((value - mean) ** 2 for value in differences) / (n - 1) / n)
    return Paired(
        effect=mean,
        low=low,
        high=high,
        greater=float(t.sf(mean / error, n - 1)),
        less=float(t.cdf(mean / error, n - 1)),
        n=n,
    )
