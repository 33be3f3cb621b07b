"""What a suite keeps, and that it does not matter."""

from __future__ import annotations

import pytest
from tests.unit.evaluation.fake_source import Pictures

from groundrl.config.compose import compose_run
from groundrl.errors import ConfigError
from groundrl.evaluation import suite as module
from groundrl.evaluation.config import EvalConfig
from groundrl.evaluation.suite import Judge, Suite
from groundrl.rewards.grader import Grader
from groundrl.rollout.collect import Collector
from groundrl.rollout.engines.base import Sampling


def made(policy, *, size: int | None = 5) -> Suite:
    config = compose_run([])
    engine = compose_run(["rollout/engine=scripted"]).rollout.engine.build(None, policy.processor)
    collector = Collector(
        engine, policy.processor, config.prompt.build(), config.rollout.build_kind(policy.processor)
    )
    judge = Judge(EvalConfig(resamples=100), Grader(config.reward.build()))
    options = EvalConfig(batch=2, sampled_k=0, resamples=100)
    return Suite(
        options, Pictures(size), collector, judge, Sampling(temperature=1.0, max_new_tokens=32), shown=1
    )


@pytest.mark.parametrize(("kept", "opened"), [(2**30, 5), (0, 10)])
def test_pictures_beyond_the_limit_are_prepared_again_and_give_the_same(
    loaded_policy, monkeypatch: pytest.MonkeyPatch, kept: int, opened: int
) -> None:
    """Two evaluations of five samples: opened once each when they are kept, else for each evaluation."""
    monkeypatch.setattr(module, "KEPT_BYTES", kept)
    own = made(loaded_policy)
    first, second = (own.evaluate(None, progress=0.0) for _ in range(2))
    assert own.source.opened == opened  # type: ignore[attr-defined]
    assert first.metrics == second.metrics
    assert [len(result.sample.images) for result in second.greedy] == [1, 0, 0, 0, 0]
    assert not any(segment.images for one in second.greedy for r in one.rollouts for segment in r.segments)


def test_how_many_samples_there_are(loaded_policy) -> None:
    own = made(loaded_policy)
    assert (own.count(3), own.count(9), own.count(None)) == (3, 5, 5)
    endless = made(loaded_policy, size=None)
    assert endless.count(7) == 7
    with pytest.raises(ConfigError, match="samples: the data set has no end"):
        endless.count(None)
