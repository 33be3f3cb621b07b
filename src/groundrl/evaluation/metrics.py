"""From evaluated samples to named metrics.

Per-sample metrics are means over the sample's completions, then over the samples of the task. Dataset-level
ones (ap..., gp50, gr50) are computed per completion index, each index forming one data set, and then
averaged. Parsing is the reward's own: these functions read the same `Answer` objects. Intervals resample
samples.

Every task      format, tokens_mean, tokens_min, tokens_max, truncated_frac, parse/<status>_frac,
                parse/rejected_mean, parse/clipped_mean, reward/total, reward/<term>,
                reward/<term>_missing_frac, monitor/<name> (see `monitors`)
rec             iou, acc50, acc75, acc90 (IoU strictly greater, as VLM-R1's evaluation at 0.5)
ovd             ap, ap50, ap75, and ap_small, ap_medium, ap_large where there are true boxes of that size: the
                values are pycocotools'; gp50, gr50, image_ap (single-image AP, mean), boxes_mean,
                absent_boxes_mean (label not among the true ones), duplicates_mean (IoU > 0.9 with an earlier
                box of the same label), false_alarm (share of answers that claim anything, over samples
                without true boxes)
mcq, numeric, yes_no, text, region_label: accuracy; point: point_f1 (see `answers`)
verified only   turns, verdicts and what became of first answers (see `verification`)
sampled only    pass@k, the share of samples with a correct completion among k (rec: acc50; ovd: single-image
                AP50 of 1; questions: accuracy), and best@k, the mean of the best IoU (rec) or single-image
                AP (ovd)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import partial

import numpy as np
from numpy.typing import ArrayLike

from groundrl.errors import UserError
from groundrl.evaluation.answers import answer_values
from groundrl.evaluation.bootstrap import Indices, Metric, bootstrap, bootstrap_many, bootstrap_mean
from groundrl.evaluation.coco import coco_metrics
from groundrl.evaluation.detection import CocoSet
from groundrl.evaluation.grounding import CORRECT_IOU, accuracy_name, false_alarm, rec_values
from groundrl.evaluation.monitors import DISTINCT, monitors, think_distinct
from groundrl.evaluation.verification import (
    RATIOS,
    Course,
    course_values,
    verdicts_of,
    verifier_statistic,
)
from groundrl.geometry.boxes import Float64
from groundrl.geometry.labels import normalise_label
from groundrl.parsing.answer import Answer, ParseStatus
from groundrl.rewards.ap import answer_average_precision
from groundrl.rewards.detection import COCO_THRESHOLDS, Scene, count_duplicates, scene_of
from groundrl.rewards.graded import Graded
from groundrl.tracking.base import Prefix
from groundrl.types import Missing, RewardBreakdown, Rollout, RolloutStatus, Sample, Task

Values = dict[str, float]
_SOLVED = accuracy_name(CORRECT_IOU)
BEST = {Task.rec: "iou", Task.ovd: "image_ap"}
EXTREMES: dict[str, Callable[[ArrayLike], float]] = {"tokens_min": np.min, "tokens_max": np.max}
"""Metrics that are the extreme over samples, not their mean."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleResult:
    """One sample with its k completions: what was written, how it was read, what it was worth.

    earlier  per completion, the answers before its last one, as they were read; empty where there are none
    """

    sample: Sample
    rollouts: Sequence[Rollout]
    answers: Sequence[Answer]
    breakdowns: Sequence[RewardBreakdown]
    earlier: Sequence[Sequence[Answer]] = ()

    def __post_init__(self) -> None:
        if not len(self.rollouts) == len(self.answers) == len(self.breakdowns) >= 1:
            raise ValueError(f"sample {self.sample.id}: needs one answer and one breakdown per rollout")

    @classmethod
    def of(cls, graded: Sequence[Graded], earlier: Sequence[Sequence[Answer]] = ()) -> SampleResult:
        """The graded rollouts of one sample (at least one)."""
        return cls(
            sample=graded[0].sample,
            rollouts=[one.rollout for one in graded],
            answers=[one.answer for one in graded],
            breakdowns=[one.breakdown for one in graded],
            earlier=earlier,
        )


def _common(rollout: Rollout, answer: Answer, breakdown: RewardBreakdown) -> Values:
    values = {
        "format": float(answer.strict and answer.readable),
        "tokens_mean": float(rollout.num_student_tokens),
        "truncated_frac": float(rollout.status is RolloutStatus.TRUNCATED_LENGTH),
        "parse/rejected_mean": float(len(answer.rejected)),
        "parse/clipped_mean": float(answer.clipped),
    }
    values |= {f"parse/{status.value}_frac": float(answer.status is status) for status in ParseStatus}
    if breakdown.total is not None:
        values["reward/total"] = breakdown.total
    for name, term in breakdown.terms.items():
        values[f"reward/{name}_missing_frac"] = float(isinstance(term, Missing))
        if not isinstance(term, Missing):
            values[f"reward/{name}"] = term.value
    return values


def _detection(sample: Sample, answer: Answer) -> Values:
    true_labels = {normalise_label(box.label) for box in sample.truth.boxes}
    absent = sum(normalise_label(box.label) not in true_labels for box in answer.boxes)
    values = {
        "image_ap": answer_average_precision(answer, sample, COCO_THRESHOLDS),
        "boxes_mean": float(len(answer.boxes)),
        "absent_boxes_mean": float(absent),
        "duplicates_mean": float(count_duplicates(answer.boxes)),
    }
    if true_labels:
        return values
    return values | {
        "false_alarm": false_alarm(answer),
        "negatives_right": float(answer.status is ParseStatus.NONE),
    }


def is_right(rollout: Rollout, sample: Sample, answer: Answer) -> bool | None:
    """Whether an answer is right: rec above IoU 0.5, ovd with single-image AP50 of 1, questions with an
    accuracy of 1; None where that is not defined (points, an unknown truth)."""
    if sample.task is Task.rec:
        return bool(rec_values(answer, sample.truth)[_SOLVED])
    if sample.task is Task.ovd:
        return answer_average_precision(answer, sample, (0.5,)) == 1
    accuracy = answer_values(rollout, sample, answer).get("accuracy")
    return None if accuracy is None else accuracy == 1


def _course(result: SampleResult, index: int) -> Course:
    rollout, earlier = result.rollouts[index], result.earlier[index] if result.earlier else ()
    answers = [*earlier, result.answers[index]]
    right = tuple(is_right(rollout, result.sample, answer) for answer in answers)
    return Course(right=right, verdicts=verdicts_of(rollout))


def _completion_values(result: SampleResult) -> list[Values]:
    sample, rows = result.sample, list[Values]()
    for index, (rollout, answer, breakdown) in enumerate(
        zip(result.rollouts, result.answers, result.breakdowns, strict=True)
    ):
        values = _common(rollout, answer, breakdown) | monitors(rollout, sample, answer)
        if sample.task is Task.rec:
            values |= rec_values(answer, sample.truth)
        elif sample.task is Task.ovd:
            values |= _detection(sample, answer)
        values |= answer_values(rollout, sample, answer)
        if result.earlier:
            values |= course_values(rollout, _course(result, index))
        rows.append(values)
    return rows


def _best(result: SampleResult, rows: list[Values]) -> Values:
    """pass@k and best@k of one sample."""
    count, sample = len(rows), result.sample
    pairs = zip(result.rollouts, result.answers, strict=True)
    right = [is_right(rollout, sample, answer) for rollout, answer in pairs]
    if None in right:
        return {}
    values = {f"pass@{count}": float(any(right))}
    if sample.task in BEST:
        values[f"best@{count}"] = max(row[BEST[sample.task]] for row in rows)
    return values


def per_sample(results: Sequence[SampleResult]) -> dict[str, dict[str, float]]:
    """Metric name -> sample id -> value; what `paired_difference` takes.

    A sample is absent from a reward's entry if none of its completions has that value (judge not answered).
    Raises ValueError on a repeated id.
    """
    vectors: dict[str, dict[str, float]] = {}
    seen: set[str] = set()
    for result in results:
        name = result.sample.id
        if name in seen:
            raise ValueError(f"sample id {name!r} occurs twice")
        seen.add(name)
        rows = _completion_values(result)
        for key in sorted({key for row in rows for key in row}):
            present = [row[key] for row in rows if key in row]
            vectors.setdefault(key, {})[name] = sum(present) / len(present)
        for key, extreme in EXTREMES.items():
            vectors.setdefault(key, {})[name] = float(extreme([row["tokens_mean"] for row in rows]))
        for key, value in _best(result, rows).items():
            vectors.setdefault(key, {})[name] = value
    distinct = iter(think_distinct([answer for result in results for answer in result.answers]))
    for result in results:
        shares = [next(distinct) for _ in result.answers]
        vectors.setdefault(DISTINCT, {})[result.sample.id] = sum(shares) / len(shares)
    return vectors


def _extreme(values: Float64, extreme: Callable[[ArrayLike], float], indices: Indices) -> float:
    return float(extreme(values[indices]))


def _detection_results(results: Sequence[SampleResult]) -> list[SampleResult]:
    return [result for result in results if result.sample.task is Task.ovd]


def _scenes(results: Sequence[SampleResult]) -> list[list[Scene]]:
    """The scenes of each completion index: one data set an index."""
    return [
        [scene_of(result.answers[index], result.sample) for result in results]
        for index in range(len(results[0].answers))
    ]


def _dataset_statistic(
    results: Sequence[SampleResult],
) -> tuple[tuple[str, ...], Callable[[Indices], Float64]]:
    """Names of the metrics that are defined on these samples, and their values as a function of indices."""
    sets = [CocoSet(scenes) for scenes in _scenes(results)]
    whole = sets[0].metrics()
    names = tuple(name for name, value in whole.items() if np.isfinite(value))

    def statistic(indices: Indices) -> Float64:
        rows = [detections.metrics(indices) for detections in sets]
        return np.array([[row[name] for name in names] for row in rows], dtype=np.float64).mean(axis=0)

    return names, statistic


def _coco_values(results: Sequence[SampleResult]) -> Values:
    """pycocotools' numbers, averaged over the data sets; nan where no true box has the size."""
    rows = [asdict(coco_metrics(scenes)) for scenes in _scenes(results)]
    return {name: sum(row[name] for row in rows) / len(rows) for name in rows[0]}


def _shifted(metric: Metric, value: float) -> Metric:
    """The metric at `value`, which differs by rounding only, its interval moved along."""
    shift = value - metric.value
    return Metric(value=value, low=metric.low + shift, high=metric.high + shift)


def dataset_difference(
    before: Sequence[SampleResult], after: Sequence[SampleResult], *, seed: int = 0, resamples: int = 1000
) -> dict[str, Metric]:
    """after - before of the dataset-level metrics by name, both computed on the same draws of samples.

    Both are ranked in the order of `before`, whatever that of `after`. Empty without detection samples.
    Raises UserError unless both hold the same samples.
    """
    old, new = ({result.sample.id: result for result in _detection_results(rows)} for rows in (before, after))
    if old.keys() != new.keys():
        raise UserError(
            f"cannot compare data sets: {len(old.keys() ^ new.keys())} detection samples are in one "
            "evaluation only; evaluate both on the same samples"
        )
    if not old:
        return {}
    order = list(old)  # AP of equal scores depends on the order of samples: keep that of `summarise`
    names, first = _dataset_statistic([old[name] for name in order])
    _, second = _dataset_statistic([new[name] for name in order])
    metrics = bootstrap_many(
        lambda indices: second(indices) - first(indices), len(order), seed=seed, resamples=resamples
    )
    return dict(zip(names, metrics, strict=True))


def summarise(
    results: Sequence[SampleResult], *, prefix: Prefix, seed: int = 0, resamples: int = 1000
) -> dict[str, Metric]:
    """All metrics of one benchmark, as `<prefix>/<name>`, sorted by name.

    greedy and verified results hold one completion a sample; sampled ones the same number k for all and get
    pass@k and best@k. Where tasks are mixed, a metric covers the samples of the tasks that have it. The
    interval of an extreme is that of the extreme of resamples, so it never goes beyond the value. Raises
    ValueError on an empty list, a repeated sample id, or completion counts that do not fit. With `resamples`
    0, which is for comparing checkpoints and for names, the APs are our own, equal to pycocotools' up to
    rounding.
    """
    if not results:
        raise ValueError("no results to summarise")
    counts = {len(result.rollouts) for result in results}
    if len(counts) > 1 or (prefix != "sampled" and counts != {1}):
        raise ValueError(f"{prefix} results with {sorted(counts)} completions a sample")
    metrics: dict[str, Metric] = {}
    for name, vector in per_sample(results).items():
        if prefix != "sampled" and name.startswith(("pass@", "best@")):
            continue
        values = np.array(list(vector.values()), dtype=np.float64)
        if name in EXTREMES:
            statistic = partial(_extreme, values, EXTREMES[name])
            metrics[name] = bootstrap(statistic, len(values), seed=seed, resamples=resamples)
        else:
            metrics[name] = bootstrap_mean(values, seed=seed, resamples=resamples)
    if any(result.earlier for result in results):
        courses = [_course(result, index) for result in results for index in range(len(result.earlier))]
        whole = verifier_statistic(courses, np.arange(len(courses)))
        kept = np.flatnonzero(np.isfinite(whole))
        if len(kept):
            ratios = bootstrap_many(
                lambda indices: verifier_statistic(courses, indices)[kept],
                len(courses),
                seed=seed,
                resamples=resamples,
            )
            metrics |= {RATIOS[place]: ratio for place, ratio in zip(kept.tolist(), ratios, strict=True)}
    if detection := _detection_results(results):
        names, statistic = _dataset_statistic(detection)
        intervals = bootstrap_many(statistic, len(detection), seed=seed, resamples=resamples)
        exact = _coco_values(detection) if resamples else {}
        for name, metric in zip(names, intervals, strict=True):
            metrics[name] = _shifted(metric, exact.get(name, metric.value))
    return {f"{prefix}/{name}": metrics[name] for name in sorted(metrics)}
