"""One batch on the tiny model: accumulation, several passes, and batches in which nothing can be learned."""

from __future__ import annotations

import copy
import math

import numpy as np
import pytest
import torch
from tests.tiny import experience, gradients, learner, scorer, varied_contexts, weights

from groundrl.errors import NonFiniteError
from groundrl.learner.config import Decay, OptimConfig
from groundrl.learner.objective import Batch, PolicyObjective
from groundrl.losses.clip import Clip
from groundrl.losses.config import Normalisation

LENGTHS = (5, 9, 1, 7, 3, 6, 8, 2)
ADVANTAGES = (1.0, -1.0, 0.5, -0.5, 2.0, -2.0, 0.25, -0.25)
MICRO = (1, 3, 7, 64)


def batch(processor, **changes) -> list:
    settings = {"lengths": LENGTHS, "advantages": ADVANTAGES} | changes
    return experience(processor, varied_contexts(processor), **settings)


def run(policy, micro: int, **changes) -> tuple[dict[str, float], dict, dict]:
    """Metrics, last gradient and weights after one batch, in float64 so that rounding cannot hide a fault."""
    model = copy.deepcopy(policy.model).double()
    reference = copy.deepcopy(model)
    with torch.no_grad():
        for parameter in reference.parameters():
            parameter.add_(0.01)
    score = scorer(policy.processor)
    made = learner(
        model,
        policy.processor,
        beta=0.1,
        reference=lambda rows: score(reference, rows).logprobs,
        optim=OptimConfig(micro_batch=micro, max_grad_norm=1e9, decay=Decay.constant),
        **changes,
    )
    metrics = made.step(batch(policy.processor, rollouts=(0, 0, 1, 2, 3, 3, 4, 5)))
    return metrics, gradients(model), weights(model)


def close(first: dict, second: dict, share: float) -> None:
    """Every entry differs by at most `share` of the largest of all."""
    assert first.keys() == second.keys()
    largest = max(float(np.abs(value).max()) for value in first.values())
    worst = {name: float(np.abs(value - second[name]).max()) for name, value in first.items()}
    assert max(worst.values()) <= share * largest, max(worst, key=lambda name: worst[name])


@pytest.mark.parametrize("mode", list(Normalisation))
def test_accumulation_changes_rounding_only(tiny_policy, mode) -> None:
    whole = run(tiny_policy, 8, normalisation=mode, lr=0.0)
    assert whole[0]["learner/grad_norm"] > 1e-3
    for micro in MICRO:
        metrics, grads, _ = run(tiny_policy, micro, normalisation=mode, lr=0.0)
        close(whole[1], grads, 1e-6)
        for name, value in whole[0].items():
            assert metrics[name] == pytest.approx(value, rel=1e-6, abs=1e-9), name


def test_accumulation_over_two_passes_gives_the_same_weights(tiny_policy) -> None:
    settings = {"num_iterations": 2, "mini_batches": 2, "lr": 1e-4}
    whole = run(tiny_policy, 8, **settings)
    for micro in (1, 3):
        close(whole[2], run(tiny_policy, micro, **settings)[2], 2e-6)


class Recorder:
    """The GRPO objective, keeping what it was shown."""

    def __init__(self) -> None:
        self.inner = PolicyObjective(term=Clip(clip_low=0.2, clip_high=0.2), beta=0.0)
        self.seen: list[tuple[torch.Tensor, Batch]] = []

    def __call__(self, scores, given: Batch) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
        self.seen.append((scores.logprobs.detach().clone(), given))
        return self.inner(scores, given)


def test_old_log_probs_are_those_before_the_first_update(fresh_policy) -> None:
    recorder = Recorder()
    rows = batch(fresh_policy.processor)
    before = scorer(fresh_policy.processor)(fresh_policy.model, [row.row for row in rows]).logprobs.detach()
    made = learner(
        fresh_policy.model,
        fresh_policy.processor,
        objective=recorder,
        num_iterations=3,
        lr=1e-3,
        optim=OptimConfig(decay=Decay.constant),
    )
    metrics = made.step(rows)
    assert made.updates == 3
    assert len(recorder.seen) == 3
    chosen = recorder.seen[0][1].selected
    for number, (present, given) in enumerate(recorder.seen):
        assert given.old_logprobs is not None
        torch.testing.assert_close(given.old_logprobs[chosen], before[chosen], rtol=0, atol=2e-6)
        ratio = (present - given.old_logprobs).exp()[chosen]
        gap = float((ratio - 1).abs().max())
        assert gap < 1e-5 if number == 0 else gap > 1e-2
    # KL(old || present), sampled from old: the mean of e^d - d - 1 with d = present - old
    moves = [(present - given.old_logprobs)[chosen].double() for present, given in recorder.seen]
    wanted = np.mean([float((d.exp() - d - 1).mean()) for d in moves])
    assert metrics["learner/approx_kl"] == pytest.approx(wanted, rel=1e-4)
    assert wanted > 1e-5


def test_one_update_needs_no_old_log_probs(fresh_policy) -> None:
    recorder = Recorder()
    learner(fresh_policy.model, fresh_policy.processor, objective=recorder).step(
        batch(fresh_policy.processor)
    )
    assert len(recorder.seen) == 1
    assert recorder.seen[0][1].old_logprobs is None


def test_mini_batches_split_the_rollouts_in_order_and_keep_segments_together(fresh_policy) -> None:
    recorder = Recorder()
    rows = batch(fresh_policy.processor, rollouts=(0, 0, 0, 0, 0, 1, 1, 2))
    made = learner(fresh_policy.model, fresh_policy.processor, objective=recorder, mini_batches=3, lr=0.0)
    made.step(rows)
    assert [given.advantages.tolist() for _, given in recorder.seen] == [
        list(ADVANTAGES[:5]),
        list(ADVANTAGES[5:7]),
        list(ADVANTAGES[7:]),
    ]
    # each mini-batch is normalised by its own rollouts: one each here
    for _, given in recorder.seen:
        assert float(given.weights.sum()) == pytest.approx(1.0)


def test_more_mini_batches_than_rollouts_left(fresh_policy) -> None:
    """Rollouts with missing rewards drop out, so a batch can be smaller than planned."""
    made = learner(fresh_policy.model, fresh_policy.processor, mini_batches=4)
    made.step(batch(fresh_policy.processor, lengths=(3, 4), advantages=(1.0, -1.0)))
    assert made.updates == 2


class Poisoned:
    """The objective with nan in the loss of the given calls, or only in their gradient."""

    def __init__(self, calls: set[int], *, gradient_only: bool = False) -> None:
        self.inner = PolicyObjective(term=Clip(clip_low=0.2, clip_high=0.2), beta=0.0)
        self.calls, self.gradient_only, self.count = calls, gradient_only, 0

    def __call__(self, scores, given: Batch) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
        loss, sums = self.inner(scores, given)
        if self.count in self.calls:
            if self.gradient_only:
                scores.logprobs.register_hook(lambda grad: grad * float("nan"))
            else:
                loss = loss * float("nan")
        self.count += 1
        return loss, sums


@pytest.mark.parametrize("gradient_only", [False, True])
@pytest.mark.parametrize("micro", [64, 3])
def test_a_step_that_is_not_finite_is_skipped_bit_for_bit(fresh_policy, gradient_only, micro) -> None:
    poisoned = Poisoned({1}, gradient_only=gradient_only)
    optim = OptimConfig(micro_batch=micro, max_nonfinite=2)
    made = learner(fresh_policy.model, fresh_policy.processor, objective=poisoned, optim=optim)
    if micro == 64:
        made.step(batch(fresh_policy.processor))
    before = weights(fresh_policy.model)
    moments = {k: v["exp_avg"].clone() for k, v in made.optimizer.state.items()}
    metrics = made.step(batch(fresh_policy.processor, seed=1))
    assert metrics["learner/skipped"] == 1.0
    after = weights(fresh_policy.model)
    assert all(before[name].tobytes() == after[name].tobytes() for name in before)
    assert all(torch.equal(moments[k], v["exp_avg"]) for k, v in made.optimizer.state.items())
    assert all(math.isfinite(value) for value in metrics.values())
    metrics = made.step(batch(fresh_policy.processor, seed=2))
    assert metrics["learner/skipped"] == 0.0
    assert any(
        before[name].tobytes() != value.tobytes() for name, value in weights(fresh_policy.model).items()
    )


def test_a_nan_reward_cannot_reach_the_weights(fresh_policy) -> None:
    before = weights(fresh_policy.model)
    rows = batch(fresh_policy.processor, advantages=(float("nan"), *ADVANTAGES[1:]))
    metrics = learner(fresh_policy.model, fresh_policy.processor).step(rows)
    assert metrics["learner/skipped"] == 1.0
    assert all(
        before[name].tobytes() == value.tobytes() for name, value in weights(fresh_policy.model).items()
    )


def test_three_in_a_row_end_the_run_but_not_three_apart(fresh_policy) -> None:
    apart = learner(fresh_policy.model, fresh_policy.processor, objective=Poisoned({0, 1, 3, 4}))
    rows = batch(fresh_policy.processor)
    skipped = [apart.step(rows)["learner/skipped"] for _ in range(6)]
    assert skipped == [1.0, 1.0, 0.0, 1.0, 1.0, 0.0]

    before = weights(fresh_policy.model)
    together = learner(fresh_policy.model, fresh_policy.processor, objective=Poisoned({0, 1, 2}))
    together.step(rows)
    together.step(rows)
    with pytest.raises(NonFiniteError, match="3 optimiser steps in a row"):
        together.step(rows)
    assert all(
        before[name].tobytes() == value.tobytes() for name, value in weights(fresh_policy.model).items()
    )


@pytest.mark.parametrize("mode", list(Normalisation))
def test_a_batch_without_selected_tokens_changes_nothing(fresh_policy, mode) -> None:
    before = weights(fresh_policy.model)
    rows = batch(fresh_policy.processor, selected=lambda row, token: False)
    metrics = learner(fresh_policy.model, fresh_policy.processor, normalisation=mode).step(rows)
    assert metrics["learner/loss"] == 0.0
    assert metrics["learner/skipped"] == 0.0
    assert all(math.isfinite(value) for value in metrics.values())
    assert all(
        before[name].tobytes() == value.tobytes() for name, value in weights(fresh_policy.model).items()
    )


def test_empty_completions(fresh_policy) -> None:
    made = learner(fresh_policy.model, fresh_policy.processor, num_iterations=2)
    metrics = made.step(batch(fresh_policy.processor, lengths=(0, 0, 0), advantages=(1.0, -1.0, 0.0)))
    assert metrics["learner/loss"] == 0.0
    mixed = made.step(batch(fresh_policy.processor, lengths=(0, 4, 0), advantages=(1.0, -1.0, 0.0)))
    assert mixed["learner/skipped"] == 0.0
    assert mixed["learner/grad_norm"] > 0


def test_no_rows_at_all(fresh_policy) -> None:
    made = learner(fresh_policy.model, fresh_policy.processor)
    assert made.step([]) == {"learner/rows": 0.0, "learner/lr": made.lr_at(0)}
    assert made.updates == 0


def test_equal_rewards_give_a_gradient_of_exactly_zero(fresh_policy) -> None:
    rows = batch(fresh_policy.processor, advantages=(0.0,) * 8)
    metrics = learner(fresh_policy.model, fresh_policy.processor).step(rows)
    assert metrics["learner/grad_norm"] == 0.0
    assert all(not value.any() for value in gradients(fresh_policy.model).values())


def test_unselected_tokens_do_not_matter(fresh_policy) -> None:
    """What was not sampled is context only: its own log-prob, nan behaviour included, leaves no trace."""
    contexts = varied_contexts(fresh_policy.processor)[:2]
    rows = experience(
        fresh_policy.processor,
        contexts,
        lengths=(6, 6),
        advantages=(1.0, -1.0),
        selected=lambda row, token: token < 3,
    )
    short = experience(fresh_policy.processor, contexts, lengths=(6, 6), advantages=(1.0, -1.0))
    for entry in short:
        entry.row.completion = entry.row.completion[:3]
        entry.selected = entry.selected[:3]
        entry.behaviour_logprobs = entry.behaviour_logprobs[:3]
    made = learner(fresh_policy.model, fresh_policy.processor, lr=0.0)
    first = made.step(rows)
    long_gradients = gradients(fresh_policy.model)
    second = made.step(short)
    close(long_gradients, gradients(fresh_policy.model), 1e-6)
    assert first["learner/mismatch_kl"] == pytest.approx(second["learner/mismatch_kl"], rel=1e-5)


def test_the_gradient_norm_is_limited(fresh_policy) -> None:
    optim = OptimConfig(max_grad_norm=1e-3)
    made = learner(fresh_policy.model, fresh_policy.processor, optim=optim, lr=0.0)
    metrics = made.step(batch(fresh_policy.processor))
    assert metrics["learner/grad_norm"] > 1e-2  # reported before the limit
    total = sum(
        float((value.astype(np.float64) ** 2).sum()) for value in gradients(fresh_policy.model).values()
    )
    assert total**0.5 == pytest.approx(1e-3, rel=1e-3)
