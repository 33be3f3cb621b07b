"""GRPO's way to experience (VLM-R1 paper, section 3): G rollouts of each prompt, scored, compared in their
group. The objective itself stands in learner/objective.py.

Deviations from the released code, each for a reason given there: a group without spread has advantage
exactly 0; a rollout whose reward is missing takes no part; sampled ids are never re-tokenised.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from groundrl.advantages.base import Advantage
from groundrl.data.sampler import Sampler
from groundrl.learner.algorithms import GRPOConfig
from groundrl.learner.experience import from_rollouts
from groundrl.rewards.grader import Grader
from groundrl.rollout.collect import Collector
from groundrl.rollout.engines.base import Sampling
from groundrl.training.clock import StageClock
from groundrl.training.method import Gathered
from groundrl.training.metrics import rollout_metrics


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
    ) -> None:
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
            samples = self.sampler.next(config.prompts_per_step)
            contexts = self.collector.contexts(samples)
        with clock.stage("rollout"):
            rollouts = self.collector.collect(
                samples, config.group_size, self.sampling, seed=(self.seed, step), contexts=contexts
            )
        with clock.stage("reward"):
            scored = self.grader.grade(
                [(rollout, samples[rollout.group]) for rollout in rollouts], progress=step / config.num_steps
            )
        with clock.stage("advantage"):
            totals = [entry.breakdown.total for entry in scored]
            rewards = np.array([np.nan if total is None else total for total in totals], dtype=np.float64)
            groups = np.array([rollout.group for rollout in rollouts], dtype=np.int64)
            assigned = self.advantage.assign(rewards, groups)
            experience = from_rollouts(rollouts, assigned.advantages, np.isfinite(rewards))
            metrics = rollout_metrics(scored)
            metrics["group/zero_spread_frac"] = assigned.zero_spread
        tokens = sum(rollout.num_student_tokens for rollout in rollouts)
        return Gathered(experience=experience, metrics=metrics, scored=scored, tokens=tokens)

    def state(self) -> dict[str, Any]:
        return {"sampler": self.sampler.state()}

    def load(self, state: dict[str, Any]) -> None:
        self.sampler.load(state["sampler"])
