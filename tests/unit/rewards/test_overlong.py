"""Soft overlong punishment: the three pieces, and what counts as length."""

import pickle

import numpy as np
import pytest

from groundrl.errors import ConfigError
from groundrl.parsing.answer import Answer, ParseStatus
from groundrl.rewards.base import ScoreContext
from groundrl.rewards.overlong import OverlongConfig
from groundrl.rollout.written import written_rollout
from groundrl.types import Role, Rollout, Sample, Scored, Task, Truth

SAMPLE = Sample(id="s", task=Task.mcq, images=(), truth=Truth(answer="A"))
CONTEXT = ScoreContext(answer=Answer(status=ParseStatus.OK))


def score(config, rollout) -> Scored:
    return config.build().score(rollout, SAMPLE, CONTEXT)


def of_length(tokens) -> Rollout:
    return written_rollout("s", "text", (), tokens=tokens)


@pytest.mark.parametrize(
    ("tokens", "expected"),
    [
        (0, 0),
        (1536, 0),  # 2048 - 512
        (1537, -1 / 512),
        (1792, -0.5),
        (2047, -511 / 512),
        (2048, -1),
        (2049, -1),
        (10**6, -1),
    ],
)
def test_default_pieces(tokens, expected) -> None:
    scored = score(OverlongConfig(), of_length(tokens))
    assert (scored.value, scored.detail) == (expected, {"tokens": tokens})


def test_settings() -> None:
    config = OverlongConfig(max_length=10, cache=4)
    assert [score(config, of_length(n)).value for n in range(5, 12)] == [0, 0, -0.25, -0.5, -0.75, -1, -1]
    whole = OverlongConfig(max_length=4, cache=4)
    assert [score(whole, of_length(n)).value for n in range(6)] == [0, -0.25, -0.5, -0.75, -1, -1]


def test_length_is_what_the_policy_sampled_over_all_turns() -> None:
    rollout = of_length(8)
    roles = [Role.STUDENT] * 3 + [Role.OBSERVATION] * 3 + [Role.INJECTED, Role.TEMPLATE]
    rollout.segments[0].roles = np.array(roles, dtype=np.int8)
    rollout.segments.append(of_length(5).segments[0])
    scored = score(OverlongConfig(max_length=10, cache=4), rollout)  # 3 + 5 tokens
    assert (scored.value, scored.detail) == (-0.5, {"tokens": 8})


def test_the_term_covers_every_task_and_travels() -> None:
    term = OverlongConfig(max_length=7, cache=3).build()
    assert pickle.loads(pickle.dumps(term)) == term
    assert (term.tasks, term.needs) == (set(Task), ())


@pytest.mark.parametrize(
    ("settings", "key"),
    [
        ({"cache": 0}, "cache"),
        ({"cache": -5}, "cache"),
        ({"cache": 2049}, "cache"),
        ({"max_length": 511}, "cache"),
        ({"max_length": 0, "cache": 0}, "cache"),
        ({"weight": float("inf")}, "weight"),
    ],
)
def test_bad_settings_name_their_key(settings, key) -> None:
    with pytest.raises(ConfigError) as caught:
        OverlongConfig(**settings)
    assert caught.value.key == key
