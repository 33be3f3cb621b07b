"""The learning rate of every optimiser step, by hand."""

from __future__ import annotations

import pytest
import torch
from tests.tiny import plan

from groundrl.errors import ConfigError
from groundrl.learner.algorithms import EvalOnlyConfig, GRPOConfig, SFTConfig
from groundrl.learner.config import Decay, OptimConfig
from groundrl.learner.learner import Learner
from groundrl.learner.objective import SFTObjective


def rates(
    count: int, *, num_steps: int, warmup: int = 0, decay: Decay = Decay.linear, **changes
) -> list[float]:
    learner = Learner(
        torch.nn.Linear(1, 1),
        None,
        SFTObjective(),
        plan(num_steps=num_steps, lr=1.0, **changes),
        OptimConfig(warmup_steps=warmup, decay=decay),
    )
    return [learner.lr_at(update) for update in range(count)]


def test_linear_decay_ends_above_zero_and_reaches_it_after_the_last_step() -> None:
    assert rates(6, num_steps=4) == pytest.approx([1.0, 0.75, 0.5, 0.25, 0.0, 0.0])


def test_cosine_decay() -> None:
    assert rates(5, num_steps=4, decay=Decay.cosine) == pytest.approx([1.0, 0.85355339, 0.5, 0.14644661, 0.0])


def test_constant() -> None:
    assert rates(9, num_steps=4, decay=Decay.constant) == [1.0] * 9


def test_warm_up_rises_to_lr_before_the_decay_begins() -> None:
    got = rates(6, num_steps=6, warmup=2)
    assert got == pytest.approx([0.5, 1.0, 1.0, 0.75, 0.5, 0.25])
    assert rates(3, num_steps=9, warmup=4, decay=Decay.constant) == pytest.approx([0.25, 0.5, 0.75])


def test_warm_up_longer_than_the_run() -> None:
    assert rates(4, num_steps=2, warmup=4) == pytest.approx([0.25, 0.5, 0.75, 1.0])


def test_optimiser_steps_are_counted_not_batches() -> None:
    assert rates(8, num_steps=2, num_iterations=2, mini_batches=2) == pytest.approx(
        [1 - k / 8 for k in range(8)]
    )


@pytest.mark.parametrize(
    ("make", "key"),
    [
        (lambda: OptimConfig(warmup_steps=-1), "warmup_steps"),
        (lambda: OptimConfig(betas=[0.9]), "betas"),
        (lambda: OptimConfig(betas=[0.9, 1.0]), "betas"),
        (lambda: OptimConfig(weight_decay=-1.0), "weight_decay"),
        (lambda: OptimConfig(max_grad_norm=0.0), "max_grad_norm"),
        (lambda: OptimConfig(micro_batch=0), "micro_batch"),
        (lambda: OptimConfig(max_nonfinite=0), "max_nonfinite"),
        (lambda: GRPOConfig(group_size=1), "group_size"),
        (lambda: GRPOConfig(prompts_per_step=2, group_size=2, mini_batches=5), "mini_batches"),
        (lambda: GRPOConfig(lr=1.0), "lr"),
        (lambda: GRPOConfig(lr=float("nan")), "lr"),
        (lambda: GRPOConfig(num_iterations=0), "num_iterations"),
        (lambda: SFTConfig(batch_size=0), "batch_size"),
    ],
)
def test_settings_that_cannot_work_are_named(make, key) -> None:
    with pytest.raises(ConfigError) as caught:
        make()
    assert caught.value.key == key


def test_steps_of_the_loop() -> None:
    assert GRPOConfig(num_steps=7).training_steps() == SFTConfig(num_steps=7).training_steps() == 7
    assert EvalOnlyConfig().training_steps() == 0
