"""Group-normalised advantages against numbers worked out by hand."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from groundrl.advantages.base import AdvantageConfig
from groundrl.advantages.group_norm import GroupNorm, GroupNormConfig
from groundrl.errors import ConfigError

NAN = float("nan")


def assign(rewards, groups, eps=1e-4) -> np.ndarray:
    assigned = GroupNorm(eps).assign(np.array(rewards, dtype=np.float64), np.array(groups))
    assert assigned.advantages.dtype == np.float64
    return assigned.advantages


def spread(rewards, groups) -> float:
    return GroupNorm(1e-4).assign(np.array(rewards, dtype=np.float64), np.array(groups)).zero_spread


def test_four_rewards_by_hand() -> None:
    """1, 2, 3, 4: mean 2.5, std with N - 1 = sqrt(5/3) = 1.29099445; 1.5 / 1.29109445 = 1.16180502."""
    got = assign([1, 2, 3, 4], [7, 7, 7, 7])
    assert got == pytest.approx([-1.16180502, -0.38726834, 0.38726834, 1.16180502], abs=1e-8)


def test_the_deviation_divides_by_n_minus_one() -> None:
    """0, 0, 3: mean 1, squares 1 + 1 + 4 = 6, std = sqrt(3); with N it would be sqrt(2)."""
    assert assign([0, 0, 3], [0, 0, 0], eps=1e-12)[2] == pytest.approx(2 / 3**0.5, abs=1e-9)


def test_group_of_two_is_plus_minus_the_same_whatever_the_gap() -> None:
    """std = gap / sqrt(2), so A = +-(1/sqrt(2)) * std / (std + eps)."""
    for gap in (1.0, 0.01):
        got = assign([0.3, 0.3 + gap], [0, 0])
        std = gap / 2**0.5
        assert got == pytest.approx([-(gap / 2) / (std + 1e-4), (gap / 2) / (std + 1e-4)], rel=1e-9)
    assert assign([0, 1e-4], [0, 0])[1] == pytest.approx(0.5e-4 / (1e-4 / 2**0.5 + 1e-4))


@pytest.mark.parametrize(
    "rewards",
    [
        [0.5, 0.5, 0.5],
        [0.0, 0.0],
        [0.1 + 0.2, 0.3],  # differ in the last bit
        [0.7 + 0.1 + 0.2, 1.0, 1.0],
        [1e8 + 1e-8, 1e8],
        [0.1] * 1000,  # their mean is not exactly 0.1
        [-3.3, -3.3, NAN],
        [0.0, -0.0],
    ],
)
def test_no_spread_is_exactly_zero(rewards) -> None:
    got = assign(rewards, [0] * len(rewards))
    assert (got == 0.0).all()
    assert spread(rewards, [0] * len(rewards)) == 1.0


def test_a_small_but_real_spread_is_kept() -> None:
    got = assign([0.3, 0.3 + 1e-9], [0, 0])
    assert got[1] == pytest.approx(0.5e-9 / (1e-9 / 2**0.5 + 1e-4), rel=1e-5)
    assert got[0] < 0 < got[1]


def test_missing_rewards_take_no_part() -> None:
    with_missing = assign([1.0, NAN, 0.0, NAN], [0, 0, 0, 0])
    assert with_missing[[0, 2]] == pytest.approx(assign([1.0, 0.0], [0, 0]), abs=0)
    assert (with_missing[[1, 3]] == 0.0).all()


def test_one_valid_reward_gives_zero_and_is_not_counted() -> None:
    assert (assign([1.0, NAN, 1.0, 0.0], [0, 0, 1, 1])[:2] == 0).all()
    assert spread([1.0, NAN, 1.0, 0.0], [0, 0, 1, 1]) == 0.0
    assert spread([NAN, NAN], [0, 0]) == 1.0
    assert spread([1.0, 1.0, 1.0, 0.0], [0, 0, 1, 1]) == 0.5


def test_infinite_rewards_do_not_poison_the_group() -> None:
    got = assign([float("inf"), 1.0, 0.0, float("-inf")], [0, 0, 0, 0])
    assert np.isfinite(got).all()
    assert got[1:3] == pytest.approx(assign([1.0, 0.0], [0, 0]))


def test_an_empty_batch() -> None:
    assert len(assign([], [])) == 0


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 3), st.floats(-5, 5) | st.just(NAN)), min_size=1, max_size=20),
    st.randoms(use_true_random=False),
)
def test_groups_are_independent_and_order_does_not_matter(rows, random) -> None:
    groups = [group for group, _ in rows]
    rewards = [reward for _, reward in rows]
    got = assign(rewards, groups)
    assert np.isfinite(got).all()
    order = list(range(len(rows)))
    random.shuffle(order)
    assert assign([rewards[i] for i in order], [groups[i] for i in order]) == pytest.approx(
        got[order], abs=1e-9
    )
    for group in set(groups):
        own = [i for i, other in enumerate(groups) if other == group]
        alone = assign([rewards[i] for i in own], [0] * len(own))
        assert alone == pytest.approx(got[own], abs=0)
        assert got[own].sum() == pytest.approx(0.0, abs=1e-9)


def test_settings() -> None:
    assert GroupNormConfig().build().eps == 1e-4
    for eps in (0.0, -1.0, NAN):
        with pytest.raises(ConfigError, match=r"^eps: must be > 0"):
            GroupNormConfig(eps=eps)
    with pytest.raises(ConfigError):
        AdvantageConfig().build()
