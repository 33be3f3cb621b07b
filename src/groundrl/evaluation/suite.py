"""Evaluation on held-out samples: the same images, prompts, parser and rubric as training.

Sampled completions draw with seeds of the evaluation's own, so two checkpoints, or two runs, are compared
on the same random numbers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from groundrl.data.base import SampleSource
from groundrl.errors import CheckpointError, ConfigError
from groundrl.evaluation.bootstrap import Metric, paired_difference
from groundrl.evaluation.config import EvalConfig, Measure
from groundrl.evaluation.metrics import (
    EXTREMES,
    SampleResult,
    dataset_difference,
    per_sample,
    summarise,
)
from groundrl.evaluation.sources import source_difference, source_metrics
from groundrl.evaluation.stored import Journal, read_answers
from groundrl.evaluation.verification import answers_of
from groundrl.parsing.answer import Answer
from groundrl.rewards.grader import Grader
from groundrl.rollout.collect import Collector
from groundrl.rollout.engines.base import Sampling
from groundrl.rollout.episode import Context
from groundrl.tracking.base import HELD_OUT, Interval, Prefix
from groundrl.types import Rollout, Sample
from groundrl.world import World

GAPS = frozenset({"accuracy", "iou", "acc50", "image_ap", "point_f1", "reward/total"})
"""Metrics of which the loop's gain over the single pass is measured, where the task has them."""
KEPT_BYTES = 256 * 2**20
"""Image patches that a suite keeps between evaluations."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluation:
    """What one evaluation measured: flat metrics, and the results they were made from by how their answers
    were drawn (each of HELD_OUT; empty where it was not asked for)."""

    metrics: dict[str, Metric]
    results: dict[str, list[SampleResult]]

    @property
    def greedy(self) -> list[SampleResult]:
        return self.results["greedy"]


class Judge:
    """From answers to metrics, without a model: parses, scores and measures."""

    def __init__(self, config: EvalConfig, grader: Grader, measure: Measure = Measure.plain) -> None:
        self.config = config
        self.grader = grader
        self.extra = measure

    def measure(
        self,
        greedy: list[SampleResult],
        sampled: list[SampleResult],
        verified: Sequence[SampleResult] = (),
    ) -> Evaluation:
        """The metrics of judged answers; verified/gap_NAME is by how much the loop changes NAME."""
        results = {"greedy": greedy, "sampled": sampled, "verified": list(verified)}
        seed, resamples = self.config.seed, self.config.resamples
        metrics: dict[str, Metric] = {}
        for prefix in HELD_OUT:
            if results[prefix]:
                metrics |= summarise(results[prefix], prefix=prefix, seed=seed, resamples=resamples)
        more = source_metrics(greedy, self.extra, seed=seed, resamples=resamples)
        metrics |= {f"greedy/{name}": metric for name, metric in more.items()}
        if verified:
            once, looped = per_sample(greedy), per_sample(verified)
            for name in GAPS & once.keys() & looped.keys():
                gap = paired_difference(once[name], looped[name], seed=seed, resamples=resamples)
                metrics[f"verified/gap_{name}"] = gap
        return Evaluation(metrics=dict(sorted(metrics.items())), results=results)

    def grade(
        self, samples: Sequence[Sample], rollouts: Sequence[Rollout], progress: float
    ) -> list[SampleResult]:
        """Parse and score the rollouts of `samples`, equally many for each and side by side.

        A sample of a task that the rubric has no weighted term for is parsed and not scored.
        """
        k = len(rollouts) // len(samples)
        pairs = [(rollout, samples[number // k]) for number, rollout in enumerate(rollouts)]
        rubric = self.grader.rubric
        scored = iter(
            self.grader.grade([one for one in pairs if rubric.scores(one[1].task)], progress=progress)
        )
        graded = [
            next(scored) if rubric.scores(sample.task) else rubric.read(rollout, sample)
            for rollout, sample in pairs
        ]
        earlier = [self._earlier(rollout, sample) for rollout, sample in pairs]
        looped = any(rollout.said for rollout in rollouts)
        return [
            SampleResult.of(graded[start : start + k], earlier[start : start + k] if looped else ())
            for start in range(0, len(graded), k)
        ]

    def _earlier(self, rollout: Rollout, sample: Sample) -> list[Answer]:
        """The answers that were taken back, as the same parser reads them."""
        texts = answers_of(rollout)[:-1]
        return [self.grader.rubric.parse(replace(rollout, text=text), sample) for text in texts]

    def difference(self, before: Evaluation, after: Evaluation) -> dict[str, Metric]:
        """after - before for every metric, paired by sample, with its interval."""
        out: dict[str, Metric] = {}
        seed, resamples = self.config.seed, self.config.resamples
        for prefix in HELD_OUT:
            old, new = before.results[prefix], after.results[prefix]
            if not old or not new:
                continue
            old_vectors, new_vectors = per_sample(old), per_sample(new)
            for name, values in new_vectors.items():
                full = f"{prefix}/{name}"
                if full in after.metrics and name in old_vectors and name not in EXTREMES:
                    out[full] = paired_difference(old_vectors[name], values, seed=seed, resamples=resamples)
            paired = dataset_difference(old, new, seed=seed, resamples=resamples)
            if prefix == "greedy":
                paired |= source_difference(old, new, self.extra, seed=seed, resamples=resamples)
            out |= {f"{prefix}/{name}": metric for name, metric in paired.items()}
        return dict(sorted(out.items()))


class Suite:
    """Evaluates whatever policy the collector draws from.

    The first samples are kept with their prepared images, up to `KEPT_BYTES`; later ones are prepared again
    by every evaluation. The results of the first `shown` samples hold their images, others do not.
    `verifying` answers in a loop of verification, greedily, beside the single pass of `collector`.
    """

    def __init__(
        self,
        config: EvalConfig,
        source: SampleSource,
        collector: Collector,
        judge: Judge,
        sampling: Sampling,
        *,
        shown: int = 0,
        world: World | None = None,
        verifying: Collector | None = None,
    ) -> None:
        self.config = config
        self.verifying = verifying
        self.world = world or World()
        self.shown = shown
        self.source = source
        self.collector = collector
        self.judge = judge
        self.sampling = sampling
        self._kept: list[tuple[Sample, Context]] = []
        self._bytes = 0

    def count(self, wanted: int | None) -> int:
        """How many of `wanted` samples there are (None: all)."""
        size = self.source.size
        if wanted is None:
            if size is None:
                raise ConfigError("samples", "the data set has no end", todo="say how many to evaluate")
            return size
        return wanted if size is None else min(wanted, size)

    def samples(self, wanted: int | None) -> list[Sample]:
        """The first `wanted` samples (fewer if there are no more), to judge stored answers by."""
        kept = [sample for sample, _ in self._kept]
        rest = (self.source.sample(index) for index in range(len(kept), self.count(wanted)))
        return [*kept, *(replace(sample, images=()) for sample in rest)][: self.count(wanted)]

    def evaluate(self, wanted: int | None, *, progress: float, journal: Journal | None = None) -> Evaluation:
        """Greedy and sampled metrics of the first `wanted` samples (None: all).

        progress: goes to the rubric. journal: answers that it holds are taken from it, others are added.
        """
        count, k = self.count(wanted), self.config.sampled_k
        likeliest = replace(self.sampling, temperature=0.0)
        greedy = self._answers("greedy", count, 1, likeliest, progress, journal)
        sampled = self._answers("sampled", count, k, self.sampling, progress, journal) if k else []
        verified: list[SampleResult] = []
        if self.verifying is not None:
            verified = self._answers("verified", count, 1, likeliest, progress, journal)
        return self.judge.measure(greedy, sampled, verified)

    def best_value(self, evaluation: Evaluation) -> float:
        """`eval.metric` on the first `eval.every_samples` samples, so that all evaluations compare.

        Raises ConfigError when there is no such metric.
        """
        prefix: Prefix = next(one for one in HELD_OUT if self.config.metric.startswith(f"{one}/"))
        results = evaluation.results[prefix][: self.config.every_samples]
        metrics = summarise(results, prefix=prefix, seed=self.config.seed, resamples=0)
        if self.config.metric not in metrics:
            known = ", ".join(sorted(metrics))
            raise ConfigError("eval.metric", f"is not measured; there are {known}", got=self.config.metric)
        return metrics[self.config.metric].value

    def _answers(
        self, kind: str, count: int, k: int, sampling: Sampling, progress: float, journal: Journal | None
    ) -> list[SampleResult]:
        """The judged answers to the first `count` samples, in order; processes take batches in turn."""
        starts = range(0, count, self.config.batch)
        pieces = [range(start, min(start + self.config.batch, count)) for start in starts]
        out: list[SampleResult] = []
        for first in range(0, len(pieces), self.world.size):
            turn = pieces[first : first + self.world.size]
            known = [journal.take(kind, len(piece) * k) if journal is not None else None for piece in turn]
            own: list[SampleResult] = []
            if self.world.rank < len(turn):
                piece, stored = turn[self.world.rank], known[self.world.rank]
                own = self._judged(kind, piece, stored, k, sampling, progress)
            results = self.world.gather_flat(own)
            if journal is not None:
                pairs = zip(turn, known, strict=True)
                had = sum(len(piece) for piece, stored in pairs if stored is not None)
                journal.add(kind, [one for result in results[had:] for one in result.rollouts])
            out += results
        return out

    def _judged(
        self,
        kind: str,
        piece: range,
        known: list[Rollout] | None,
        k: int,
        sampling: Sampling,
        progress: float,
    ) -> list[SampleResult]:
        """The judged answers to the samples of a piece: `known`, or drawn now."""
        samples, contexts = self._prepared(piece, contexts=known is None)
        if known is None:
            looped = self.verifying if kind == "verified" else None
            known = (looped or self.collector).collect(
                samples, k, sampling, seed=(self.config.seed,), first=piece.start, contexts=contexts
            )
        _check_same(samples, known, k)
        slim = [
            sample if index < self.shown else replace(sample, images=())
            for index, sample in zip(piece, samples, strict=True)
        ]
        return self.judge.grade(slim, [_without_images(rollout) for rollout in known], progress)

    def _prepared(self, piece: range, *, contexts: bool) -> tuple[list[Sample], list[Context]]:
        """The samples of a piece and, if asked for, their contexts; what fits is kept for the next time."""
        kept = self._kept[piece.start : piece.stop]
        samples = [self.source.sample(index) for index in range(piece.start + len(kept), piece.stop)]
        fresh = self.collector.contexts(samples) if contexts else []
        for index, (sample, context) in enumerate(zip(samples, fresh, strict=False)):
            size = sum(image.patches.nbytes for image in context.images)
            if len(self._kept) != piece.start + len(kept) + index or self._bytes + size > KEPT_BYTES:
                break
            self._kept.append((sample, context))
            self._bytes += size
        return [*(one for one, _ in kept), *samples], [*(one for _, one in kept), *fresh]


def judged(path: Path, samples: Sequence[Sample], judge: Judge, *, progress: float) -> Evaluation:
    """A stored evaluation of `samples`, judged again. Raises CheckpointError when it is of others, or was
    not finished."""
    stored = read_answers(path)
    results: dict[str, list[SampleResult]] = {prefix: [] for prefix in HELD_OUT}
    for kind, graded in results.items():
        rollouts = [rollout for own, rollout in stored if own == kind]
        if kind == "greedy" and len(rollouts) < len(samples):
            raise CheckpointError(
                f"{path} holds {len(rollouts)} greedy answers to {len(samples)} samples: the evaluation was "
                "not finished; go on with it by resume=RUN_DIR"
            )
        k, rest = divmod(len(rollouts), len(samples))
        if rest or (kind == "greedy" and k != 1) or (kind == "verified" and k > 1):
            raise CheckpointError(f"{path} holds answers to other samples than are evaluated")
        _check_same(samples, rollouts, k)
        if rollouts:
            graded += judge.grade(samples, rollouts, progress)
    return judge.measure(*results.values())


def _check_same(samples: Sequence[Sample], rollouts: Sequence[Rollout], k: int) -> None:
    if [rollout.sample_id for rollout in rollouts] != [sample.id for sample in samples for _ in range(k)]:
        raise CheckpointError("stored answers are to other samples than are evaluated; evaluate anew")


def _without_images(rollout: Rollout) -> Rollout:
    """The rollout without image patches, which are megabytes a picture and are not looked at again."""
    return replace(rollout, segments=[replace(segment, images=()) for segment in rollout.segments])


def as_json(metrics: Mapping[str, Metric]) -> dict[str, Interval]:
    """Plain numbers for trackers and result files."""
    return {
        name: Interval(value=metric.value, low=metric.low, high=metric.high)
        for name, metric in metrics.items()
    }
