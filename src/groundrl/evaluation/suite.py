"""Evaluation on held-out samples: the same images, prompts, parser and rubric as training.

Sampled completions draw with seeds of the evaluation's own, so two checkpoints, or two runs, are compared
on the same random numbers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from groundrl.data.base import SampleSource
from groundrl.errors import ConfigError
from groundrl.evaluation.bootstrap import Metric, paired_difference
from groundrl.evaluation.config import EvalConfig
from groundrl.evaluation.metrics import SampleResult, dataset_difference, per_sample, summarise
from groundrl.rewards.grader import Grader
from groundrl.rollout.collect import Collector
from groundrl.rollout.engines.base import Sampling
from groundrl.rollout.episode import Context
from groundrl.tracking.base import Interval
from groundrl.types import Rollout, Sample


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluation:
    """What one evaluation measured: flat metrics, and the results they were made from."""

    metrics: dict[str, Metric]
    greedy: list[SampleResult]
    sampled: list[SampleResult]


class Judge:
    """From answers to metrics, without a model: parses, scores and measures."""

    def __init__(self, config: EvalConfig, grader: Grader) -> None:
        self.config = config
        self.grader = grader

    def measure(self, greedy: list[SampleResult], sampled: list[SampleResult]) -> Evaluation:
        """The metrics of judged answers."""
        seed, resamples = self.config.seed, self.config.resamples
        metrics = summarise(greedy, prefix="greedy", seed=seed, resamples=resamples)
        if sampled:
            metrics |= summarise(sampled, prefix="sampled", seed=seed, resamples=resamples)
        return Evaluation(metrics=metrics, greedy=greedy, sampled=sampled)

    def grade(
        self, samples: Sequence[Sample], rollouts: Sequence[Rollout], progress: float
    ) -> list[SampleResult]:
        """Parse and score the rollouts of `samples`, equally many for each and side by side."""
        k = len(rollouts) // len(samples)
        pairs = [(rollout, samples[number // k]) for number, rollout in enumerate(rollouts)]
        graded = self.grader.grade(pairs, progress=progress)
        return [SampleResult.of(graded[start : start + k]) for start in range(0, len(graded), k)]


class Suite:
    """Evaluates whatever policy the collector draws from."""

    def __init__(
        self,
        config: EvalConfig,
        source: SampleSource,
        collector: Collector,
        judge: Judge,
        sampling: Sampling,
    ) -> None:
        self.config = config
        self.source = source
        self.collector = collector
        self.judge = judge
        self.sampling = sampling
        self._samples: list[Sample] = []
        self._contexts: list[Context] = []

    def samples(self, count: int) -> list[Sample]:
        """The first `count` held-out samples (fewer if there are no more), prepared once."""
        if self.source.size is not None:
            count = min(count, self.source.size)
        fresh = [self.source.sample(index) for index in range(len(self._samples), count)]
        self._contexts += self.collector.contexts(fresh)
        self._samples += fresh
        return self._samples[:count]

    def evaluate(self, count: int, *, progress: float) -> Evaluation:
        """Greedy and sampled metrics of the first `count` samples; `progress` goes to the rubric."""
        samples = self.samples(count)
        greedy = self._answers(samples, 1, replace(self.sampling, temperature=0.0), progress)
        k = self.config.sampled_k
        sampled = self._answers(samples, k, self.sampling, progress) if k else []
        return self.judge.measure(greedy, sampled)

    def best_value(self, evaluation: Evaluation) -> float:
        """`eval.metric` on the first `eval.every_samples` samples, so that all evaluations compare.

        Raises ConfigError when there is no such metric.
        """
        prefix = "greedy" if self.config.metric.startswith("greedy/") else "sampled"
        results: list[SampleResult] = getattr(evaluation, prefix)[: self.config.every_samples]
        metrics = summarise(results, prefix=prefix, seed=self.config.seed, resamples=0)
        if self.config.metric not in metrics:
            known = ", ".join(sorted(metrics))
            raise ConfigError("eval.metric", f"is not measured; there are {known}", got=self.config.metric)
        return metrics[self.config.metric].value

    def _answers(
        self, samples: Sequence[Sample], k: int, sampling: Sampling, progress: float
    ) -> list[SampleResult]:
        out: list[SampleResult] = []
        for start in range(0, len(samples), self.config.batch):
            piece = samples[start : start + self.config.batch]
            rollouts = self.collector.collect(
                piece,
                k,
                sampling,
                seed=(self.config.seed,),
                first=start,
                contexts=self._contexts[start : start + len(piece)],
            )
            out += self.judge.grade(piece, rollouts, progress)
        return out

    def difference(self, before: Evaluation, after: Evaluation) -> dict[str, Metric]:
        """after - before for every metric, paired by sample, with its interval."""
        out: dict[str, Metric] = {}
        for prefix in ("greedy", "sampled"):
            old: list[SampleResult] = getattr(before, prefix)
            new: list[SampleResult] = getattr(after, prefix)
            if not old or not new:
                continue
            old_vectors, new_vectors = per_sample(old), per_sample(new)
            for name, values in new_vectors.items():
                full = f"{prefix}/{name}"
                if full in after.metrics and name in old_vectors and name != "tokens_max":
                    out[full] = paired_difference(
                        old_vectors[name], values, seed=self.config.seed, resamples=self.config.resamples
                    )
            paired = dataset_difference(old, new, seed=self.config.seed, resamples=self.config.resamples)
            out |= {f"{prefix}/{name}": metric for name, metric in paired.items()}
        return dict(sorted(out.items()))


def as_json(metrics: Mapping[str, Metric]) -> dict[str, Interval]:
    """Plain numbers for trackers and result files."""
    return {
        name: Interval(value=metric.value, low=metric.low, high=metric.high)
        for name, metric in metrics.items()
    }
