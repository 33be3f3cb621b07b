"""Percentile bootstrap over samples (Efron and Tibshirani, An Introduction to the Bootstrap, chapter 13)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from groundrl.errors import UserError
from groundrl.geometry.boxes import Float64

Indices = NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    """A value with the bounds of its interval (95 % unless asked otherwise)."""

    value: float
    low: float
    high: float


def resample_indices(size: int, *, seed: int | Sequence[int], resamples: int) -> Iterator[Indices]:
    """`resamples` draws with replacement from range(size), each int64 [size]; a function of its arguments.

    Two statistics on the same samples and seed see the same draws, so their difference is paired.
    """
    rng = np.random.default_rng(seed)
    for _ in range(resamples):
        yield rng.integers(0, size, size=size)


def bootstrap_many(
    statistic: Callable[[Indices], Float64],
    size: int,
    *,
    seed: int = 0,
    resamples: int = 1000,
    level: float = 0.95,
) -> list[Metric]:
    """Intervals of several statistics that are computed together.

    statistic  from sample indices [size], in which an index may occur several times, to values [S]
    returns    S metrics; each value is the statistic of all samples. A resample on which a statistic is nan
               is left out of that statistic's interval. With `resamples` 0 the bounds are the value.

    Raises ValueError if there are no samples or a value is not finite.
    """
    if size < 1:
        raise ValueError("no samples to resample")
    values = statistic(np.arange(size))
    if not np.isfinite(values).all():
        raise ValueError(f"statistic is not finite on the full set: {values.tolist()}")
    draws = [statistic(indices) for indices in resample_indices(size, seed=seed, resamples=resamples)]
    table = np.array(draws, dtype=np.float64).reshape(len(draws), len(values))
    pairs = zip(values.tolist(), table.T, strict=True)
    return [percentile(value, column, level=level) for value, column in pairs]


def percentile(value: float, draws: Float64, *, level: float = 0.95) -> Metric:
    """`value` with the interval of its resampled `draws` [R]; draws that are nan are left out."""
    kept = draws[np.isfinite(draws)]
    low, high = value, value
    if len(kept):
        low, high = np.quantile(kept, [(1 - level) / 2, (1 + level) / 2]).tolist()
    return Metric(value=value, low=low, high=high)


def bootstrap(
    statistic: Callable[[Indices], float],
    size: int,
    *,
    seed: int = 0,
    resamples: int = 1000,
    level: float = 0.95,
) -> Metric:
    """Interval of one statistic, given as a function of sample indices [size] (see `bootstrap_many`)."""

    def vector(indices: Indices) -> Float64:
        return np.array([statistic(indices)], dtype=np.float64)

    return bootstrap_many(vector, size, seed=seed, resamples=resamples, level=level)[0]


def bootstrap_mean(values: Float64, *, seed: int = 0, resamples: int = 1000, level: float = 0.95) -> Metric:
    """Interval of the mean of per-sample values [N]."""
    return bootstrap(
        lambda indices: float(values[indices].mean()),
        len(values),
        seed=seed,
        resamples=resamples,
        level=level,
    )


def paired_difference(
    before: Mapping[str, float],
    after: Mapping[str, float],
    *,
    seed: int = 0,
    resamples: int = 1000,
    level: float = 0.95,
) -> Metric:
    """Interval of the mean of `after - before`, both given per sample id.

    Pairs are the ids that both hold (a value that a judge never gave has no pair), and the draws do not
    depend on the order of either mapping. Raises UserError if no id is in both.
    """
    common = sorted(before.keys() & after.keys())
    if not common:
        raise UserError(
            "cannot pair: the two evaluations have no sample in common; evaluate the same samples"
        )
    difference = np.array([after[name] - before[name] for name in common], dtype=np.float64)
    return bootstrap_mean(difference, seed=seed, resamples=resamples, level=level)
