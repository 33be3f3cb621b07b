"""Batches drawn ahead: whose weights drew which batch, and a queue that survives a checkpoint to the bit."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from tests.unit.rollout.test_alignment import BOXES, asked, method, written

from groundrl.errors import CheckpointError, ConfigError
from groundrl.rollout.collect import Collector
from groundrl.rollout.config import RolloutConfig
from groundrl.rollout.engines.base import Completion
from groundrl.rollout.engines.recorded import from_json, to_json
from groundrl.training.ahead import Ahead
from groundrl.training.clock import StageClock
from groundrl.training.grpo import GRPO, Collected
from groundrl.training.method import Gathered

COLOURS = tuple(BOXES)


class Weights:
    """Stands for the policy: which update it is at, and which batches it was asked for."""

    def __init__(self) -> None:
        self.update = 0
        self.calls: list[int] = []


def grpo(policy: Any, weights: Weights) -> GRPO:
    """Answers move with the weights, so a batch drawn at another update is another batch."""

    def script(request: Any, number: int, index: int) -> str:
        x1, y1, x2, y2 = BOXES[asked(policy, request)]
        move = (5 * weights.update + 3 * index) % 20
        return written((x1 + move, y1, x2 + move, y2))

    out = method(policy, script, colours=COLOURS)
    out.config.prompts_per_step = 2
    inner = out.collect

    def collect(step: int, clock: StageClock, collector: Collector | None = None) -> Collected:
        weights.calls.append(step)
        return inner(step, clock, collector)

    out.collect = collect
    return out


def ahead(policy: Any, weights: Weights, max_lag: int, num_steps: int) -> Ahead:
    return Ahead(grpo(policy, weights), max_lag=max_lag, num_steps=num_steps)


def content(gathered: Gathered) -> list[tuple[Any, ...]]:
    """All that a step learns from and stores."""
    rows = [
        (
            r.row.prompt.tobytes(),
            r.row.completion.tobytes(),
            r.behaviour_logprobs.tobytes(),
            r.advantage,
            r.lag,
        )
        for r in gathered.experience
    ]
    told = [(e.sample.id, e.rollout.text, e.rollout.seed, e.breakdown.total) for e in gathered.scored]
    return [*rows, *told, tuple(sorted(gathered.metrics.items()))]


@pytest.mark.parametrize(
    ("max_lag", "drawn", "lags"),
    [
        # before update t: batches up to t + max_lag, as far as the run goes
        (1, [[0, 1], [2], [3], [4], []], [0, 1, 1, 1, 1]),
        (2, [[0, 1, 2], [3], [4], [], []], [0, 1, 2, 2, 2]),
        (9, [[0, 1, 2, 3, 4], [], [], [], []], [0, 1, 2, 3, 4]),
    ],
)
def test_which_weights_draw_which_batch(tiny_policy, max_lag, drawn, lags) -> None:
    weights = Weights()
    made = ahead(tiny_policy, weights, max_lag, 5)
    plain = grpo(tiny_policy, at := Weights())
    for step in range(5):
        weights.update, weights.calls = step, []
        got = made.gather(step, StageClock())
        assert weights.calls == drawn[step]
        assert got.metrics.pop("learner/lag_mean") == lags[step]
        assert {row.lag for row in got.experience} == {lags[step]}
        # the batch is the one that a synchronous run would have drawn with the weights of that time
        at.update = step - lags[step]
        expected = plain.gather(step, StageClock())
        for row in expected.experience:
            row.lag = lags[step]
        assert content(got) == content(expected)


def test_weights_that_do_not_move_give_the_batches_of_a_synchronous_run(tiny_policy) -> None:
    made, plain = ahead(tiny_policy, Weights(), 1, 6), grpo(tiny_policy, Weights())
    for step in range(6):
        got, expected = made.gather(step, StageClock()), plain.gather(step, StageClock())
        assert got.metrics.pop("learner/lag_mean") == min(step, 1)
        for row in got.experience:
            row.lag = 0
        assert content(got) == content(expected)


@pytest.mark.parametrize("stop", range(6))
@pytest.mark.parametrize("max_lag", [1, 3])
def test_a_resumed_queue_goes_on_to_the_bit(tiny_policy, max_lag: int, stop: int) -> None:
    """Weights at the time of resuming would draw other answers: what waited must come from the checkpoint."""
    weights = Weights()
    whole = ahead(tiny_policy, weights, max_lag, 6)
    for step in range(stop):
        weights.update = step
        whole.gather(step, StageClock())
    saved = json.loads(json.dumps(whole.state()))
    assert len(saved["ahead"]) == (min(max_lag, 6 - stop) if stop else 0)
    later = Weights()
    later.update = 7
    resumed = ahead(tiny_policy, later, max_lag, 6)
    resumed.load(saved)
    assert resumed.sampler.position == whole.sampler.position
    for step in range(stop, 6):
        weights.update = later.update = step
        assert content(whole.gather(step, StageClock())) == content(resumed.gather(step, StageClock()))
        assert json.dumps(whole.state()) == json.dumps(resumed.state())


def test_a_rollout_that_the_checkpoint_lacks_is_an_error(tiny_policy) -> None:
    made = ahead(tiny_policy, Weights(), 1, 4)
    made.gather(0, StageClock())
    saved = made.state()
    saved["ahead"][0]["completions"].popitem()
    fresh = ahead(tiny_policy, Weights(), 1, 4)
    engine = fresh.inner.collector.engine
    with pytest.raises(CheckpointError, match="lacks a rollout that was drawn ahead"):
        fresh.load(saved)
    assert fresh.inner.collector.engine is engine


def test_completions_come_back_to_the_bit() -> None:
    one = Completion(
        ids=np.array([3, 2**40], dtype=np.int64),
        logprobs=np.array([-0.1, -1e-8], dtype=np.float32),
        finished=False,
    )
    seed = 2**64 - 1
    (back,) = [
        value for key, value in from_json(json.loads(json.dumps(to_json({seed: one})))).items() if key == seed
    ]
    assert (back.ids.dtype, back.logprobs.dtype, back.finished) == (np.int64, np.float32, False)
    assert back.ids.tobytes() == one.ids.tobytes()
    assert back.logprobs.tobytes() == one.logprobs.tobytes()


def test_a_negative_lag_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"^max_lag: must be >= 0"):
        RolloutConfig(max_lag=-1)
