"""Token weights of the three normalisations, by hand and against a plain definition."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from groundrl.losses.config import Normalisation
from groundrl.losses.normalise import token_weights

MODES = list(Normalisation)


def weights(counts, rollouts, mode, constant=10) -> list[float]:
    return token_weights(np.array(counts), np.array(rollouts), mode, constant).tolist()


def test_by_hand_with_segments_and_an_empty_rollout() -> None:
    """Rollout 0 has segments of 2 and 3 tokens, rollout 1 one token, rollout 2 none; six tokens in all."""
    counts, rollouts = [2, 3, 1, 0], [0, 0, 1, 2]
    got = weights(counts, rollouts, Normalisation.sequence_mean)
    assert got[:3] == pytest.approx([1 / 15, 1 / 15, 1 / 3])
    assert weights(counts, rollouts, Normalisation.token_mean) == pytest.approx([1 / 6] * 4)
    assert weights(counts, rollouts, Normalisation.constant) == pytest.approx([1 / 30] * 4)


def test_a_rollout_without_tokens_still_counts_as_one() -> None:
    alone = weights([4], [0], Normalisation.sequence_mean)
    with_empty = weights([4, 0], [0, 1], Normalisation.sequence_mean)
    assert alone == pytest.approx([1 / 4])
    assert with_empty[0] == pytest.approx(1 / 8)
    assert np.isfinite(with_empty).all()  # inf times an empty selection would be nan


def test_long_answers_weigh_more_per_rollout_only_where_they_should() -> None:
    counts, rollouts = [1, 9], [0, 1]
    share = {mode: np.array(weights(counts, rollouts, mode)) * counts for mode in MODES}
    assert share[Normalisation.sequence_mean] == pytest.approx([0.5, 0.5])
    assert share[Normalisation.token_mean] == pytest.approx([0.1, 0.9])
    assert share[Normalisation.constant] == pytest.approx([0.05, 0.45])


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("counts", [[0], [0, 0, 0]])
def test_nothing_selected_is_zero_not_nan(mode, counts) -> None:
    assert weights(counts, list(range(len(counts))), mode) == [0.0] * len(counts)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 5), st.integers(0, 4)), min_size=1, max_size=12), st.sampled_from(MODES)
)
def test_weighted_sum_is_the_definition(rows, mode) -> None:
    counts, rollouts = [c for c, _ in rows], [r * 7 for _, r in rows]
    losses = [np.arange(1.0, count + 1) * (n + 1) for n, count in enumerate(counts)]
    got = sum(float((w * own).sum()) for w, own in zip(weights(counts, rollouts, mode), losses, strict=True))
    names = sorted(set(rollouts))
    of = {name: np.zeros(0) for name in names}
    for own, name in zip(losses, rollouts, strict=True):
        of[name] = np.concatenate([of[name], own])
    if mode is Normalisation.token_mean:
        everything = np.concatenate(list(of.values()))
        wanted = everything.mean() if len(everything) else 0.0
    elif mode is Normalisation.sequence_mean:
        wanted = np.mean([x.mean() if len(x) else 0.0 for x in of.values()])
    else:
        wanted = np.mean([x.sum() / 10 for x in of.values()])
    assert got == pytest.approx(float(wanted), abs=1e-9)
