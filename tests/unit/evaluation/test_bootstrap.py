"""Bootstrap intervals: determinism, pairing, coverage."""

import numpy as np
import pytest

from groundrl.errors import UserError
from groundrl.evaluation.bootstrap import (
    Metric,
    bootstrap,
    bootstrap_many,
    bootstrap_mean,
    paired_difference,
    resample_indices,
)


def test_draws_are_a_function_of_the_seed() -> None:
    first = list(resample_indices(5, seed=3, resamples=4))
    again = list(resample_indices(5, seed=3, resamples=4))
    other = list(resample_indices(5, seed=4, resamples=4))
    assert [row.tolist() for row in first] == [row.tolist() for row in again]
    assert [row.tolist() for row in first] != [row.tolist() for row in other]
    assert all(row.shape == (5,) and set(row.tolist()) <= set(range(5)) for row in first)


def test_mean_of_a_coin() -> None:
    values = np.array([0.0, 1.0] * 50)
    metric = bootstrap_mean(values, seed=0)
    assert metric.value == 0.5
    # binomial: 0.5 -+ 1.96 * 0.05
    assert metric.low == pytest.approx(0.402, abs=0.015)
    assert metric.high == pytest.approx(0.598, abs=0.015)
    wide = bootstrap_mean(values, seed=0, level=0.99)
    assert wide.low < metric.low < metric.high < wide.high


def test_constant_single_and_no_resamples() -> None:
    assert bootstrap_mean(np.full(7, 0.25)) == Metric(value=0.25, low=0.25, high=0.25)
    assert bootstrap_mean(np.array([0.3])) == Metric(value=0.3, low=0.3, high=0.3)
    assert bootstrap_mean(np.array([0.0, 1.0]), resamples=0) == Metric(value=0.5, low=0.5, high=0.5)


def test_percentiles_of_the_statistic() -> None:
    values = np.arange(20.0)
    draws = [values[row].max() for row in resample_indices(20, seed=1, resamples=50)]
    metric = bootstrap(lambda indices: float(values[indices].max()), 20, seed=1, resamples=50)
    assert metric == Metric(value=19.0, low=np.quantile(draws, 0.025), high=np.quantile(draws, 0.975))


def test_undefined_resamples_are_left_out_and_an_undefined_value_is_an_error() -> None:
    values = np.array([1.0, np.nan])
    metric = bootstrap(lambda indices: 1.0 if 0 in indices else np.nan, 2)
    assert (metric.value, metric.low, metric.high) == (1.0, 1.0, 1.0)
    with pytest.raises(ValueError, match="not finite"):
        bootstrap_mean(values)
    with pytest.raises(ValueError, match="no samples"):
        bootstrap_mean(np.array([]))


def test_many_share_their_draws() -> None:
    values = np.random.default_rng(0).random(30)
    both = bootstrap_many(lambda i: np.array([values[i].mean(), 1 - values[i].mean()]), 30, seed=5)
    assert both[0] == bootstrap_mean(values, seed=5)
    assert both[0].low == pytest.approx(1 - both[1].high)


def test_pairing_removes_what_the_samples_have_in_common() -> None:
    rng = np.random.default_rng(0)
    names = [f"s{i}" for i in range(200)]
    base = rng.random(200)
    before = dict(zip(names, base.tolist(), strict=True))
    after = dict(zip(names, (base + 0.01 + 0.01 * rng.standard_normal(200)).tolist(), strict=True))
    paired = paired_difference(before, after)
    assert 0.007 < paired.low < paired.value < paired.high < 0.013
    shuffled = dict(sorted(after.items(), reverse=True))
    assert paired_difference(before, shuffled) == paired
    assert paired_difference(dict(sorted(before.items(), reverse=True)), after) == paired
    unpaired = bootstrap_mean(np.array(list(after.values())))
    assert unpaired.high - unpaired.low > 10 * (paired.high - paired.low)


def test_a_difference_has_a_sign() -> None:
    assert paired_difference({"a": 1.0}, {"a": 0.25}).value == -0.75


def test_pairs_are_the_samples_in_both() -> None:
    assert paired_difference({"a": 1.0, "b": 9.0}, {"c": 7.0, "a": 1.5}).value == 0.5
    with pytest.raises(UserError, match="no sample in common"):
        paired_difference({"b": 1.0}, {"a": 1.0})


def test_coverage_of_the_interval() -> None:
    """About 95 of 100 intervals hold the true mean; percentile intervals of 40 draws a little less."""
    rng = np.random.default_rng(0)
    metrics = [bootstrap_mean(rng.standard_normal(40), seed=i, resamples=200) for i in range(200)]
    assert 0.88 < np.mean([metric.low <= 0 <= metric.high for metric in metrics]) < 0.99
