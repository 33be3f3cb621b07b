"""GRPO's way to experience (VLM-R1 paper, section 3): G rollouts of each prompt, scored, compared in their
group. The objective itself stands in learner/objective.py.

Deviations from the released code, each for a reason given there: a group without spread has advantage
exactly 0; a rollout whose reward is missing takes no part; sampled ids are never re-tokenised.

With dynamic sampling (DAPO, section 3.2) only groups with spread are learned from; the others give way to
fresh prompts, round after round, until the batch is full or the rounds are used up. Metrics and stored
rollouts are of everything drawn, so that rewards do not look different for what was left out.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from groundrl.advantages.base import Advantage
from groundrl.advantages.spread import groups_with_signal
from groundrl.data.sampler import Sampler
from groundrl.learner.algorithms import GRPOConfig
from groundrl.learner.experience import from_rollouts
from groundrl.rewards.graded import Graded
from groundrl.rewards.grader import Grader
from groundrl.rollout.collect import Collector
from groundrl.rollout.engines.base import Sampling
from groundrl.training.clock import StageClock
from groundrl.training.method import Gathered, Method
from groundrl.training.metrics import rollout_metrics
from groundrl.types import Role, Rollout, Sample
from groundrl.world import World


@dataclass(frozen=True, slots=True, kw_only=True)
class Collected:
    """This process' rollouts of the next prompts of a step, not graded yet; groups are numbered from `first`
    within the step. collector: what drew them, and draws what is still missing. seconds: of its engine, by
    the role of what it was asked for."""

    step: int
    first: int
    samples: list[Sample]
    rollouts: list[Rollout]
    collector: Collector
    seconds: dict[Role, float] = field(default_factory=dict[Role, float])


class GRPO(Method):
    """Gathers group-compared rollouts."""

    def __init__(
        self,
        config: GRPOConfig,
        *,
        sampler: Sampler,
        collector: Collector,
        grader: Grader,
        advantage: Advantage,
        sampling: Sampling,
        seed: int,
        world: World | None = None,
    ) -> None:
        self.world = world or World()
        self.config = config
        self.sampler = sampler
        self.collector = collector
        self.grader = grader
        self.advantage = advantage
        self.sampling = sampling
        self.seed = seed

    def gather(self, step: int, clock: StageClock) -> Gathered:
        return self.finish(self.collect(step, clock), clock)

    def collect(self, step: int, clock: StageClock, collector: Collector | None = None) -> Collected:
        """The first round of a step. It neither talks to other processes nor grades (a limit on grading is a
        signal, and those reach the main thread only), so it may run in another thread."""
        return self._collect(step, self.config.prompts_per_step, 0, clock, collector or self.collector)

    def finish(self, collected: Collected, clock: StageClock) -> Gathered:
        """Grade it, fill it up where sampling is dynamic, and compare. Called by all processes."""
        config, step = self.config, collected.step
        wanted, most = config.prompts_per_step, config.dynamic_sampling.max_rounds
        own, scored = self._graded(collected, clock)
        drawn, rounds = wanted, 0
        while rounds < most and (lacking := wanted - len(groups_with_signal(*_rewards(scored)))):
            more = self.world.size * math.ceil(lacking / self.world.size)
            again = self._collect(step, more, drawn, clock, collected.collector)
            fresh, all_fresh = self._graded(again, clock)
            own, scored = own + fresh, scored + all_fresh
            drawn += more
            rounds += 1
        with clock.stage("advantage"):
            rewards, groups = _rewards(scored)
            assigned = self.advantage.assign(rewards, groups)
            used = np.isfinite(rewards)
            metrics = rollout_metrics(scored)
            metrics["group/zero_spread_frac"] = assigned.zero_spread
            if Role.VERIFY in collected.seconds:
                seconds = collected.seconds
                metrics["verify/time_frac"] = seconds[Role.VERIFY] / sum(seconds.values())
            if most:
                used &= np.isin(groups, list(groups_with_signal(rewards, groups)))
                metrics["group/resampled"] = float(drawn - wanted)
                metrics["group/rounds"] = float(rounds)
            places = {(one.rollout.group, one.rollout.index): place for place, one in enumerate(scored)}
            mine = [places[one.rollout.group, one.rollout.index] for one in own]
            experience = from_rollouts([one.rollout for one in own], assigned.advantages[mine], used[mine])
        tokens = sum(entry.rollout.num_student_tokens for entry in scored)
        return Gathered(experience=experience, metrics=metrics, scored=scored, tokens=tokens, own=own)

    def _collect(
        self, step: int, prompts: int, first: int, clock: StageClock, collector: Collector
    ) -> Collected:
        """Rollouts of this process' share of the next `prompts`."""
        share = prompts // self.world.size
        first += self.world.rank * share
        with clock.stage("data"):
            samples = self.sampler.next(share)
            contexts = collector.contexts(samples)
        with clock.stage("rollout"):
            rollouts = collector.collect(
                samples,
                self.config.group_size,
                self.sampling,
                seed=(self.seed, step),
                contexts=contexts,
                first=first,
            )
            for rollout in rollouts:
                rollout.group += first
        return Collected(
            step=step,
            first=first,
            samples=samples,
            rollouts=rollouts,
            collector=collector,
            seconds=collector.take_seconds(),
        )

    def _graded(self, collected: Collected, clock: StageClock) -> tuple[list[Graded], list[Graded]]:
        """Graded rollouts: this process', and those of all in order of their prompts."""
        first, samples = collected.first, collected.samples
        with clock.stage("reward"):
            pairs = [(rollout, samples[rollout.group - first]) for rollout in collected.rollouts]
            own = list(self.grader.grade(pairs, progress=collected.step / self.config.num_steps))
            if self.world.alone:
                return own, own
            return own, self.world.gather_flat([_light(entry) for entry in own])

    def state(self) -> dict[str, Any]:
        return {"sampler": self.sampler.state()}

    def load(self, state: dict[str, Any]) -> None:
        self.sampler.load(state["sampler"])


def _rewards(scored: Sequence[Graded]) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Totals [B], nan where missing, and the group each belongs to [B]."""
    totals = [entry.breakdown.total for entry in scored]
    rewards = np.array([np.nan if total is None else total for total in totals], dtype=np.float64)
    return rewards, np.array([entry.rollout.group for entry in scored], dtype=np.int64)


def _light(entry: Graded) -> Graded:
    """The entry as other processes need it: without images, but for those of the first, shown group."""
    rollout = entry.rollout
    rollout = replace(rollout, segments=[replace(segment, images=()) for segment in rollout.segments])
    sample = entry.sample if rollout.group == 0 else replace(entry.sample, images=())
    return replace(entry, rollout=rollout, sample=sample)
