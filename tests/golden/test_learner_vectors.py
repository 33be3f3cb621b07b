"""GRPO's loss and gradient against a second implementation, and a few numbers worked out by hand.

`reference_loss` is the objective of the VLM-R1 paper (section 3) written token by token in float64 plain
Python over torch scalars; it shares no line with the package. The policy is a table of logits, one row of
them per token, so that the gradient with respect to logits is the parameter's gradient.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pytest
import torch
from tests.tiny import plan
from torch import Tensor, nn

from groundrl.learner.config import Decay, OptimConfig
from groundrl.learner.experience import Experience
from groundrl.learner.learner import Learner
from groundrl.learner.logprobs import TokenScores
from groundrl.learner.objective import PolicyObjective, SFTObjective
from groundrl.losses.clip import Clip
from groundrl.losses.config import Normalisation
from groundrl.models.forward import Row

V, BANNED, T = 7, (5, 6), 0.7
"""Vocabulary, ids that cannot be drawn, temperature."""

LENGTHS = (4, 1, 6, 3, 2, 5)
ROLLOUTS = (0, 0, 1, 2, 3, 4)
"""Rollout 0 has two segments."""
ADVANTAGES = (1.3, 1.3, -0.8, 0.4, -2.0, 0.0)
MODES = list(Normalisation)


class Table(nn.Module):
    """Logits [rows, C, V] as the parameter, in float64."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(seed)
        shape = (len(LENGTHS), max(LENGTHS), V)
        self.logits = nn.Parameter(torch.randn(shape, generator=generator, dtype=torch.float64))


class TableRow(Row):
    """A row that knows its place in the table."""

    __slots__ = ("number",)


def score_table(model: Table, rows: Sequence[TableRow]) -> TokenScores:
    """What learner/logprobs.py does, with the table in place of a transformer."""
    longest = max(len(row.completion) for row in rows)
    logprobs = torch.zeros(len(rows), longest, dtype=torch.float64)
    mask = torch.zeros(len(rows), longest, dtype=torch.bool)
    pieces = []
    for b, row in enumerate(rows):
        c = len(row.completion)
        logits = model.logits[row.number, :c].clone()
        logits[:, list(BANNED)] = float("-inf")
        full = torch.log_softmax(logits / T, -1)
        own = full.gather(1, torch.from_numpy(row.completion)[:, None])[:, 0]
        pieces.append(torch.cat([own, own.new_zeros(longest - c)]))
        mask[b, :c] = True
    logprobs = torch.stack(pieces)
    return TokenScores(logprobs=logprobs, entropy=torch.zeros_like(logprobs), mask=mask)


def rows(seed: int = 0) -> list[Experience]:
    rng = np.random.default_rng(seed)
    out = []
    for number, length in enumerate(LENGTHS):
        row = TableRow(
            prompt=np.zeros(1, dtype=np.int64),
            images=(),
            completion=rng.integers(0, V - len(BANNED), size=length).astype(np.int64),
        )
        row.number = number
        selected = rng.random(length) < 0.7
        selected[0] = number != 4  # row 4: nothing selected
        if number == 4:
            selected[:] = False
        out.append(
            Experience(
                row=row,
                selected=selected,
                advantage=ADVANTAGES[number],
                behaviour_logprobs=np.where(selected, -1.0, np.nan).astype(np.float32),
                rollout=ROLLOUTS[number],
            )
        )
    return out


@dataclass
class Settings:
    low: float = 0.2
    high: float = 0.28
    beta: float = 0.0
    mode: Normalisation = Normalisation.sequence_mean
    constant: int = 8


def reference_loss(
    logits: Tensor, batch: Sequence[Experience], old: Tensor, ref: Tensor, s: Settings
) -> Tensor:
    """Minus the objective, for tables [rows, C, V] of present, old and reference logits."""

    def logp(table: Tensor, i: int, t: int, token: int) -> Tensor:
        kept = [table[i, t, v] / T for v in range(V) if v not in BANNED]
        return table[i, t, token] / T - torch.logsumexp(torch.stack(kept), 0)

    owners = sorted({row.rollout for row in batch})
    tokens = {o: sum(int(r.selected.sum()) for r in batch if r.rollout == o) for o in owners}
    total = torch.zeros((), dtype=torch.float64)
    for row in batch:
        for t, token in enumerate(row.row.completion.tolist()):
            if not row.selected[t]:
                continue
            i = row.row.number
            now = logp(logits, i, t, token)
            ratio = torch.exp(now - logp(old, i, t, token).detach())
            bounded = min(max(float(ratio.detach()), 1 - s.low), 1 + s.high)
            plain, cut = ratio * row.advantage, bounded * row.advantage
            value = plain if float(plain.detach()) <= cut else torch.tensor(cut)
            gap = logp(ref, i, t, token).detach() - now
            value = value - s.beta * (torch.exp(gap) - gap - 1)
            if s.mode is Normalisation.sequence_mean:
                value = value / tokens[row.rollout] / len(owners)
            elif s.mode is Normalisation.token_mean:
                value = value / sum(tokens.values())
            else:
                value = value / s.constant / len(owners)
            total = total - value
    return total


def objective_of(s: Settings) -> PolicyObjective:
    return PolicyObjective(term=Clip(clip_low=s.low, clip_high=s.high), beta=s.beta)


def table_learner(model: Table, s: Settings, reference: Table | None = None, **changes) -> Learner:
    optim = changes.pop("optim", OptimConfig(decay=Decay.constant, max_grad_norm=1e9))
    return Learner(
        model,
        score_table,
        objective_of(s),
        plan(normalisation=s.mode, constant_length=s.constant, **changes),
        optim,
        reference=None if reference is None else lambda r: score_table(reference, r).logprobs,
    )


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("beta", [0.0, 0.3])
@pytest.mark.parametrize("micro", [1, 4, 64])
def test_first_update_matches_the_reference(mode: Normalisation, beta: float, micro: int) -> None:
    s = Settings(beta=beta, mode=mode)
    model, ref = Table(0), Table(1)
    batch = rows()
    optim = OptimConfig(decay=Decay.constant, max_grad_norm=1e9, micro_batch=micro)
    metrics = table_learner(model, s, ref if beta else None, lr=0.0, optim=optim).step(batch)

    expected = Table(0)
    loss = reference_loss(expected.logits, batch, expected.logits, ref.logits, s)
    loss.backward()
    assert metrics["learner/loss"] == pytest.approx(float(loss.detach()), abs=1e-6)
    assert metrics["learner/grad_norm"] == pytest.approx(float(expected.logits.grad.norm()), rel=1e-5)
    torch.testing.assert_close(model.logits.grad, expected.logits.grad, rtol=1e-5, atol=1e-8)
    assert float(expected.logits.grad.abs().max()) > 1e-3


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("beta", [0.0, 0.3])
@pytest.mark.parametrize("mini_batches", [1, 2, 3])
def test_off_policy_updates_match_the_reference(mode: Normalisation, beta: float, mini_batches: int) -> None:
    """Two passes with a step so large that tokens are clipped on both sides; weights after every step."""
    s = Settings(beta=beta, mode=mode)
    model, ref = Table(0), Table(1)
    batch = rows()
    lr = 0.25
    metrics = table_learner(
        model, s, ref if beta else None, lr=lr, num_iterations=2, mini_batches=mini_batches
    ).step(batch)

    start, expected = Table(0).logits.detach(), Table(0)
    adam = torch.optim.AdamW(expected.parameters(), lr=lr, betas=(0.9, 0.95), weight_decay=0.0)
    owners = sorted({row.rollout for row in batch})
    losses = []
    for _ in range(2):
        for part in np.array_split(owners, mini_batches):
            piece = [row for row in batch if row.rollout in part]
            adam.zero_grad()
            loss = reference_loss(expected.logits, piece, start, ref.logits, s)
            loss.backward()
            adam.step()
            losses.append(float(loss.detach()))
    assert metrics["learner/loss"] == pytest.approx(np.mean(losses), abs=1e-6)
    torch.testing.assert_close(model.logits, expected.logits, rtol=1e-4, atol=1e-5)
    assert metrics["learner/clip_low_frac"] > 0
    assert metrics["learner/clip_high_frac"] > 0


def test_the_reference_agrees_with_finite_differences() -> None:
    """Guards the test's own reference: central differences in float64, off policy, beta > 0."""
    s = Settings(beta=0.3)
    batch, old, ref = rows(), Table(2).logits.detach(), Table(1).logits.detach()
    model = Table(0)
    reference_loss(model.logits, batch, old, ref, s).backward()
    flat = model.logits.detach().clone()
    rng = np.random.default_rng(0)
    step = 1e-6
    checked = 0
    for _ in range(60):
        i = int(rng.integers(len(LENGTHS)))
        t, v = int(rng.integers(LENGTHS[i])), int(rng.integers(V))
        values = []
        for sign in (1, -1):
            moved = flat.clone()
            moved[i, t, v] += sign * step
            values.append(float(reference_loss(moved, batch, old, ref, s)))
        slope = (values[0] - values[1]) / (2 * step)
        assert slope == pytest.approx(float(model.logits.grad[i, t, v]), abs=1e-6)
        checked += abs(slope) > 1e-4
    assert checked > 10


@pytest.mark.parametrize("mode", MODES)
def test_equal_rewards_give_a_gradient_of_exactly_zero(mode: Normalisation) -> None:
    batch = rows()
    for row in batch:
        row.advantage = 0.0
    model = Table(0)
    metrics = table_learner(model, Settings(mode=mode), lr=0.1).step(batch)
    assert metrics["learner/loss"] == 0.0
    assert metrics["learner/grad_norm"] == 0.0
    assert torch.equal(model.logits, Table(0).logits)


@pytest.mark.parametrize("mode", MODES)
def test_nothing_selected_is_a_loss_of_zero(mode: Normalisation) -> None:
    batch = rows()
    for row in batch:
        row.selected[:] = False
        row.behaviour_logprobs[:] = np.nan
    model = Table(0)
    metrics = table_learner(model, Settings(beta=0.3, mode=mode), Table(1), lr=0.1).step(batch)
    assert metrics["learner/loss"] == 0.0
    assert all(math.isfinite(value) for value in metrics.values())
    assert torch.equal(model.logits, Table(0).logits)


def test_metrics_are_means_over_selected_tokens() -> None:
    """A batch of one pass and two mini-batches: the second is scored after one step."""
    batch = rows()
    model, ref = Table(0), Table(1)
    metrics = table_learner(model, Settings(beta=0.3), ref, lr=0.0).step(batch)
    now = score_table(Table(0), [row.row for row in batch]).logprobs.detach().numpy()
    other = score_table(ref, [row.row for row in batch]).logprobs.detach().numpy()
    chosen = np.zeros(now.shape, dtype=bool)
    for b, row in enumerate(batch):
        chosen[b, : len(row.selected)] = row.selected
    gap = (other - now)[chosen]
    assert metrics["learner/kl_ref"] == pytest.approx(np.mean(np.exp(gap) - gap - 1), rel=1e-5)
    behind = (now + 1.0)[chosen]  # engine log-probs are -1
    assert metrics["learner/mismatch_kl"] == pytest.approx(np.mean(np.exp(behind) - behind - 1), rel=1e-5)
    assert metrics["learner/mismatch_max"] == pytest.approx(np.abs(behind).max(), rel=1e-5)
    assert metrics["learner/approx_kl"] == 0.0
    assert metrics["learner/clip_low_frac"] == metrics["learner/clip_high_frac"] == 0.0
    assert metrics["learner/rows"] == len(LENGTHS)


def test_supervised_loss_is_the_mean_over_all_target_tokens() -> None:
    batch = rows()
    for row in batch:
        row.selected[:] = True
    model = Table(0)
    made = table_learner(model, Settings(mode=Normalisation.token_mean), lr=0.0)
    made.objective = SFTObjective()
    metrics = made.step(batch)
    other = Table(0)
    total = torch.zeros((), dtype=torch.float64)
    for row in batch:
        for t, token in enumerate(row.row.completion.tolist()):
            kept = other.logits[row.row.number, t, : V - len(BANNED)][None] / T
            total = total + nn.functional.cross_entropy(kept, torch.tensor([token]))
    (total / sum(LENGTHS)).backward()
    assert metrics["learner/loss"] == pytest.approx(float(total.detach()) / sum(LENGTHS), abs=1e-6)
    assert metrics["learner/nll"] == pytest.approx(float(total.detach()) / sum(LENGTHS), abs=1e-6)
    torch.testing.assert_close(model.logits.grad, other.logits.grad, rtol=1e-5, atol=1e-8)


def test_by_hand_one_group_of_two() -> None:
    """Two answers of one and two tokens, two words, logits 0: every log-prob is log 1/2.

    Rewards 1 and 0: mean 0.5, std sqrt(0.5); A = +-0.5 / (0.70710678 + 0.0001) = +-0.70700680.
    On policy the loss is -(A1 + A2) / 2 = 0 under sequence_mean, and -(A1 + 2 A2) / 3 = 0.23566893 under
    token_mean. d log p / d logit = 1 - p = 0.5 for the drawn word, so the gradient of the first answer's
    token is -0.5 * A1 * weight.
    """
    from groundrl.advantages.group_norm import GroupNorm

    advantages = GroupNorm(1e-4).assign(np.array([1.0, 0.0]), np.array([0, 0])).advantages
    assert advantages == pytest.approx([0.70700680, -0.70700680], abs=5e-9)

    class Two(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.logits = nn.Parameter(torch.zeros(2, 2, 2, dtype=torch.float64))

    def score(model: Two, given: Sequence[Row]) -> TokenScores:
        mask = torch.tensor([[True, False], [True, True]])
        values = torch.log_softmax(model.logits, -1)[..., 0] * mask
        return TokenScores(logprobs=values, entropy=torch.zeros(2, 2), mask=mask)

    batch = [
        Experience(
            row=Row(
                prompt=np.zeros(1, dtype=np.int64), images=(), completion=np.zeros(length, dtype=np.int64)
            ),
            selected=np.ones(length, dtype=bool),
            advantage=float(advantages[number]),
            behaviour_logprobs=np.full(length, math.log(0.5), dtype=np.float32),
            rollout=number,
        )
        for number, length in enumerate((1, 2))
    ]
    wanted = {
        Normalisation.sequence_mean: (0.0, 1 / 2, 1 / 4),
        Normalisation.token_mean: (0.23566893, 1 / 3, 1 / 3),
        Normalisation.constant: (0.35350340 / 8, 1 / 16, 1 / 16),
    }
    for mode, (loss, first, second) in wanted.items():
        model = Two()
        learner = Learner(
            model,
            score,
            PolicyObjective(term=Clip(clip_low=0.2, clip_high=0.2), beta=0.0),
            plan(normalisation=mode, constant_length=8, lr=0.0),
            OptimConfig(max_grad_norm=1e9),
        )
        metrics = learner.step(batch)
        assert metrics["learner/loss"] == pytest.approx(loss, abs=1e-7)
        grad = model.logits.grad
        assert float(grad[0, 0, 0]) == pytest.approx(-0.5 * 0.70700680 * first, abs=1e-7)
        assert float(grad[1, 0, 0]) == pytest.approx(0.5 * 0.70700680 * second, abs=1e-7)
        assert float(grad[1, 1, 1]) == pytest.approx(-0.5 * 0.70700680 * second, abs=1e-7)
        assert float(grad[0, 1].abs().sum()) == 0.0
