"""Dynamic sampling: groups without spread give way to fresh prompts, within a limit, and resumably."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.unit.rollout.test_alignment import BOXES, asked, method, written

from groundrl.errors import ConfigError
from groundrl.learner.algorithms import DynamicSamplingConfig
from groundrl.training.clock import StageClock
from groundrl.training.grpo import GRPO
from groundrl.training.method import Gathered

COLOURS = tuple(BOXES)


def made(policy, max_rounds: int, mixed: tuple[str, ...]) -> GRPO:
    """Two prompts a step of four, two answers each; only `mixed` colours are answered right and wrong."""

    def script(request, number: int, index: int) -> str:
        colour = asked(policy, request)
        other = next(name for name in COLOURS if name != colour)
        return written(BOXES[other if colour in mixed and index else colour])

    out = method(policy, script, colours=COLOURS)
    sampling = DynamicSamplingConfig(max_rounds=max_rounds)
    out.config = replace(out.config, prompts_per_step=2, dynamic_sampling=sampling)
    return out


def gather(grpo: GRPO, step: int = 0) -> Gathered:
    return grpo.gather(step, StageClock())


def test_off_keeps_flat_groups_and_draws_once(tiny_policy) -> None:
    grpo = made(tiny_policy, 0, ())
    got = gather(grpo)
    assert len(got.experience) == 4
    assert grpo.sampler.position == 2
    assert "group/rounds" not in got.metrics


@pytest.mark.parametrize("kept", COLOURS)
def test_flat_groups_are_replaced_until_the_batch_is_full(tiny_policy, kept: str) -> None:
    """One colour in four varies, so two groups of it need more than one walk over the data."""
    grpo = made(tiny_policy, 20, (kept,))
    got = gather(grpo)
    names = [entry.sample.id for entry in got.scored]
    order = names[::2]
    assert names[1::2] == order
    assert order.count(kept) == 2
    assert order[-1] == kept
    assert len(order) == grpo.sampler.position == 2 + got.metrics["group/resampled"]
    assert [row.advantage > 0 for row in got.experience] == [True, False] * 2
    right = {n for n, entry in enumerate(got.scored) if entry.sample.id == kept}
    assert {row.rollout for row in got.experience} == right
    groups = [entry.rollout.group for entry in got.scored]
    assert groups == sorted(groups)
    assert len(set(groups)) == len(order)
    assert len({entry.rollout.seed for entry in got.scored}) == len(names)
    assert got.metrics["group/zero_spread_frac"] == pytest.approx(1 - 2 / len(order))


def test_rounds_are_limited_and_what_there_is_is_learned_from(tiny_policy) -> None:
    grpo = made(tiny_policy, 3, ())
    got = gather(grpo)
    assert got.experience == []
    assert (got.metrics["group/rounds"], got.metrics["group/resampled"]) == (3.0, 6.0)
    assert grpo.sampler.position == 8
    for kept in COLOURS:  # one round more: the other two of the four, or one of them
        part = gather(made(tiny_policy, 1, (kept,)))
        assert len(part.experience) == 2
        assert part.metrics["group/rounds"] == 1.0
        assert part.metrics["group/resampled"] in (1.0, 2.0)


def test_a_full_batch_draws_nothing_more(tiny_policy) -> None:
    on, off = (made(tiny_policy, rounds, COLOURS) for rounds in (5, 0))
    got, plain = gather(on), gather(off)
    assert (got.metrics["group/rounds"], got.metrics["group/resampled"]) == (0.0, 0.0)
    assert [entry.rollout.seed for entry in got.scored] == [entry.rollout.seed for entry in plain.scored]
    assert [row.advantage for row in got.experience] == [row.advantage for row in plain.experience]


def test_a_resumed_run_draws_what_the_first_would_have(tiny_policy) -> None:
    whole = made(tiny_policy, 20, ("blue",))
    gather(whole, 0)
    saved = whole.state()
    resumed = made(tiny_policy, 20, ("blue",))
    resumed.load(saved)
    one, other = gather(whole, 1), gather(resumed, 1)
    drawn = [[(e.sample.id, e.rollout.seed, e.rollout.group) for e in g.scored] for g in (one, other)]
    assert drawn[0] == drawn[1]
    assert one.metrics == other.metrics


def test_settings() -> None:
    with pytest.raises(ConfigError, match=r"^max_rounds: must be >= 0"):
        DynamicSamplingConfig(max_rounds=-1)
