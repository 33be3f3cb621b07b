"""Drawing tokens, against exact probabilities."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy import stats

from groundrl.rollout.engines.base import Sampling
from groundrl.rollout.engines.draw import draw, uniforms

P = np.array([0.4, 0.05, 0.25, 0.1, 0.2])
LOGITS = torch.from_numpy(np.log(P)) + 3.0
BIGGEST = 1 - 2.0**-53
"""The largest uniform number there is."""


def sampling(**changes) -> Sampling:
    return Sampling(**{"temperature": 1.0, "max_new_tokens": 1} | changes)


def drawn(logits: torch.Tensor, noise: np.ndarray, **changes) -> np.ndarray:
    rows = logits.expand(len(noise), -1)
    return draw(rows, noise, sampling(**changes))[0].numpy()


def counts(logits: torch.Tensor, n: int = 40_000, seed: int = 0, **changes) -> np.ndarray:
    noise = np.random.default_rng(seed).random(n)
    return np.bincount(drawn(logits, noise, **changes), minlength=logits.shape[-1])


@pytest.mark.parametrize("temperature", [0.5, 1.0, 2.0])
def test_frequencies_are_the_probabilities(temperature) -> None:
    wanted = P ** (1 / temperature)
    wanted /= wanted.sum()
    got = counts(LOGITS, temperature=temperature)
    assert stats.chisquare(got, wanted * got.sum()).pvalue > 1e-3
    assert 0.5 * np.abs(got / got.sum() - wanted).sum() < 0.01


def test_each_number_maps_to_the_interval_it_lies_in() -> None:
    """Cumulative 0.4, 0.45, 0.7, 0.8, 1: exact up to the last bits."""
    noise = np.array([0.0, 0.399999, 0.400001, 0.449999, 0.450001, 0.699999, 0.700001, 0.8001, BIGGEST])
    assert drawn(LOGITS, noise).tolist() == [0, 0, 1, 1, 2, 2, 3, 4, 4]


def test_a_lower_temperature_is_sharper() -> None:
    shares = [counts(LOGITS, temperature=t)[0] / 40_000 for t in (0.1, 0.5, 1.0, 5.0)]
    assert shares[0] > 0.98
    assert shares == sorted(shares, reverse=True)
    assert shares[3] < 0.28


@pytest.mark.parametrize("noise", [0.0, 0.5, BIGGEST])
def test_banned_words_are_never_drawn(noise) -> None:
    """At both ends of the vocabulary, where 0 and the largest number would fall on them."""
    logits = torch.full((1, 8), float("-inf"))
    logits[0, [2, 5]] = torch.tensor([0.0, 1.0])
    for temperature in (0.01, 1.0, 10.0):
        token, logprob = draw(logits, np.array([noise]), sampling(temperature=temperature))
        assert int(token) in (2, 5)
        assert torch.isfinite(logprob).all()
    assert drawn(logits, np.array([0.0])).tolist() == [2]
    assert drawn(logits, np.array([BIGGEST])).tolist() == [5]


def test_the_largest_number_never_leaves_the_vocabulary() -> None:
    rng = np.random.default_rng(0)
    logits = torch.from_numpy(rng.normal(size=(500, 640)) * 5).float()
    logits[:, 600:] = float("-inf")
    token, _ = draw(logits, np.full(500, BIGGEST), sampling())
    assert int(token.max()) < 600
    token, _ = draw(logits, np.zeros(500), sampling())
    weights = torch.softmax(logits, -1)
    assert (weights.gather(1, token[:, None]) > 0).all()
    assert all(not (weights[i, : int(t)] > 0).any() for i, t in enumerate(token))


def test_a_number_rounded_up_to_one_draws_the_last_word_that_can_be() -> None:
    assert drawn(torch.tensor([[0.0, 1.0, float("-inf")]]), np.array([1.0])).tolist() == [1]
    assert drawn(LOGITS, np.array([1.0]), top_k=2).tolist() == [2]


@pytest.mark.parametrize(
    ("k", "kept"),
    [(1, {0}), (2, {0, 2}), (3, {0, 2, 4}), (4, {0, 2, 3, 4}), (5, set(range(5))), (9, set(range(5)))],
)
def test_top_k_keeps_the_k_likeliest(k, kept) -> None:
    got = counts(LOGITS, top_k=k)
    assert set(np.flatnonzero(got)) == kept
    wanted = np.where([i in kept for i in range(5)], P, 0)
    used = sorted(kept)
    if len(used) > 1:
        assert stats.chisquare(got[used], wanted[used] / wanted.sum() * got.sum()).pvalue > 1e-3


@pytest.mark.parametrize(
    ("p", "kept"),
    [
        (0.01, {0}),
        (0.39, {0}),
        (0.41, {0, 2}),
        (0.64, {0, 2}),
        (0.66, {0, 2, 4}),
        (0.94, {0, 2, 3, 4}),
        (0.96, set(range(5))),
        (1.0, set(range(5))),
    ],
)
def test_top_p_keeps_the_smallest_set_that_holds_p(p, kept) -> None:
    assert set(np.flatnonzero(counts(LOGITS, top_p=p))) == kept


def test_top_p_is_of_what_top_k_left() -> None:
    """After top-k 2 the two words have 8/13 and 5/13: 0.6 needs one of them, 0.63 both."""
    assert set(np.flatnonzero(counts(LOGITS, top_k=2, top_p=0.6))) == {0}
    assert set(np.flatnonzero(counts(LOGITS, top_k=2, top_p=0.63))) == {0, 2}


def test_top_p_follows_the_temperature() -> None:
    """At temperature 0.5 the first word has 0.16 / 0.275 = 0.58."""
    assert set(np.flatnonzero(counts(LOGITS, top_p=0.55))) == {0, 2}
    assert set(np.flatnonzero(counts(LOGITS, top_p=0.55, temperature=0.5))) == {0}


def test_rows_are_truncated_on_their_own() -> None:
    logits = torch.stack([LOGITS, LOGITS.flip(0)])
    token, _ = draw(logits, np.array([0.5, 0.5]), sampling(top_k=1))
    assert token.tolist() == [0, 4]


def test_log_probs_are_of_the_whole_distribution() -> None:
    """Truncation changes what is drawn, not what is kept: the learner scores the whole."""
    noise = np.random.default_rng(0).random(200)
    for temperature in (0.7, 1.0):
        wanted = torch.log_softmax(LOGITS / temperature, -1)
        for changes in ({}, {"top_k": 2}, {"top_p": 0.5}):
            token, logprob = draw(LOGITS.expand(200, -1), noise, sampling(temperature=temperature, **changes))
            torch.testing.assert_close(logprob, wanted[token])


def test_greedy_takes_the_likeliest_and_scores_it_at_temperature_one() -> None:
    token, logprob = draw(LOGITS[None], np.array([0.99]), sampling(temperature=0.0, top_k=3, top_p=0.1))
    assert token.tolist() == [0]
    assert float(logprob) == pytest.approx(np.log(0.4))
    tie = torch.tensor([[1.0, 2.0, 2.0]])
    assert draw(tie, np.array([0.99]), sampling(temperature=0.0))[0].tolist() == [1]


def test_numbers_belong_to_the_seed() -> None:
    whole = uniforms([3, 2**63 + 5, 3], 50)
    assert whole.shape == (3, 50)
    assert np.array_equal(whole[0], whole[2])
    assert np.array_equal(whole[1], uniforms([2**63 + 5], 50)[0])
    assert np.array_equal(whole[0, :20], uniforms([3], 20)[0])
    assert not np.isin(whole[0], whole[1]).any()
    assert ((whole >= 0) & (whole < 1)).all()
    assert stats.kstest(uniforms(range(400), 25).ravel(), "uniform").pvalue > 1e-3
