"""A mean over seeds with its interval."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class SeedMean:
    """The mean of `n` seeds. `low` and `high` are None where nothing is known of the spread.

    `within_run` says that the interval is that of one run (over its scenes), not over seeds.
    """

    value: float
    low: float | None
    high: float | None
    n: int
    within_run: bool = False

    def scaled(self, factor: float) -> SeedMean:
        """The same in another unit."""
        return SeedMean(
            value=self.value * factor,
            low=None if self.low is None else self.low * factor,
            high=None if self.high is None else self.high * factor,
            n=self.n,
            within_run=self.within_run,
        )


def t_interval(values: Sequence[float], *, level: float = 0.95) -> tuple[float, float]:
    """Student's two-sided interval of the mean of two or more independent values.

    mean +- t(1 - (1 - level) / 2; n - 1) s / root n, with s from n - 1 (Student 1908).
    """
    from scipy.stats import t

    n = len(values)
    if n < 2:
        raise ValueError("an interval over seeds needs two of them")
    mean = math.fsum(values) / n
    error = math.sqrt(math.fsum((value - mean) ** 2 for value in values) / (n - 1) / n)
    reach = float(t.ppf((1 + level) / 2, n - 1)) * error
    return mean - reach, mean + reach


def seed_mean(
    values: Sequence[float], own: tuple[float, float] | None = None, *, same: bool = False
) -> SeedMean:
    """Mean over seeds; with one seed the interval is the run's `own`, if it has one.

    values   one per seed, one or more
    own      (low, high) of the first run, over its scenes
    same     whether the seeds are one measurement repeated (nothing was trained): their spread of 0 would
             not be that of the value
    """
    if len(values) == 1 or same:
        low, high = own or (None, None)
        return SeedMean(value=values[0], low=low, high=high, n=len(values), within_run=own is not None)
    low, high = t_interval(values)
    return SeedMean(value=math.fsum(values) / len(values), low=low, high=high, n=len(values))
