"""GRPO's way to experience (VLM-R1 paper, section 3): G rollouts of each prompt, scored, compared in their
group. The objective itself stands in learner/objective.py.

Deviations from the released code, each for a reason given there: a group without spread has advantage
exactly 0; a rollout whose reward is missing takes no part; sampled ids are never re-tokenised.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from groundrl.advantages.base import Advantage
from groundrl.data.sampler import Sampler
from groundrl.learner.algorithms import GRPOConfig
from groundrl.learner.experience import from_rollouts
from groundrl.rewards.graded import Graded
from groundrl.rewards.grader import Grader
from groundrl.rollout.collect import Collector
from groundrl.rollout.engines.base import Sampling
from groundrl.training.clock import StageClock
from groundrl.training.method import Gathered
from groundrl.training.metrics import rollout_metrics
from groundrl.world import World


class GRPO:
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
        config = self.config
        with clock.stage("data"):
            samples = self.sampler.next(config.prompts_per_step // self.world.size)
            contexts = self.collector.contexts(samples)
        with clock.stage("rollout"):
            rollouts = self.collector.collect(
                samples,
                config.group_size,
                self.sampling,
                seed=(self.seed, step),
                contexts=contexts,
                first=self.world.rank * len(samples),
            )
        with clock.stage("reward"):
            own = self.grader.grade(
                [(rollout, samples[rollout.group]) for rollout in rollouts], progress=step / config.num_steps
            )
            scored = gathered(own, self.world)
        with clock.stage("advantage"):
            totals = [entry.breakdown.total for entry in scored]
            rewards = np.array([np.nan if total is None else total for total in totals], dtype=np.float64)
            groups = np.array([entry.rollout.group for entry in scored], dtype=np.int64)
            assigned = self.advantage.assign(rewards, groups)
            mine = slice(self.world.rank * len(own), (self.world.rank + 1) * len(own))
            experience = from_rollouts(rollouts, assigned.advantages[mine], np.isfinite(rewards[mine]))
            metrics = rollout_metrics(scored)
            metrics["group/zero_spread_frac"] = assigned.zero_spread
        tokens = sum(entry.rollout.num_student_tokens for entry in scored)
        return Gathered(experience=experience, metrics=metrics, scored=scored, tokens=tokens)

    def state(self) -> dict[str, Any]:
        return {"sampler": self.sampler.state()}

    def load(self, state: dict[str, Any]) -> None:
        self.sampler.load(state["sampler"])


def gathered(own: Sequence[Graded], world: World) -> list[Graded]:
    """The graded rollouts of all processes in order of their prompts, groups numbered through, without images
    but for those of the first group, which is shown."""
    if world.alone:
        return list(own)
    groups = 1 + max((entry.rollout.group for entry in own), default=-1)

    def sent(entry: Graded) -> Graded:
        rollout = entry.rollout
        segments = [replace(segment, images=()) for segment in rollout.segments]
        rollout = replace(rollout, segments=segments, group=rollout.group + world.rank * groups)
        shown = world.first and entry.rollout.group == 0
        sample = entry.sample if shown else replace(entry.sample, images=())
        return replace(entry, rollout=rollout, sample=sample)

    return world.gather_flat([sent(entry) for entry in own])
