"""From evaluated samples to named metrics.

Per-sample metrics are means over the sample's completions, then over the samples of the task. Dataset-level
ones (ap, ap50, gp50, gr50) are computed per completion index, each index forming one data set, and then
averaged. Parsing is the reward's own: these functions read the same `Answer` objects. Intervals resample
samples.

Every task      format, tokens_mean, tokens_max, truncated_frac, parse/<status>_frac, parse/rejected_mean,
                parse/clipped_mean, reward/total, reward/<term>, reward/<term>_missing_frac
rec             iou, acc50 (IoU > 0.5, strictly, as VLM-R1's evaluation)
ovd             ap, ap50, gp50, gr50, image_ap (single-image AP, mean), boxes_mean, absent_boxes_mean (label
                not among the true ones), duplicates_mean (IoU > 0.9 with an earlier box of the same label)
sampled only    pass@k, the share of samples with a correct completion among k (rec: acc50; ovd: single-image
                AP50 of 1), and best@k, the mean of the best IoU (rec) or single-image AP (ovd)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal

import numpy as np

from groundrl.errors import UserError
from groundrl.evaluation.bootstrap import Indices, Metric, bootstrap, bootstrap_many, bootstrap_mean
from groundrl.evaluation.detection import DetectionSet
from groundrl.geometry.boxes import Float64
from groundrl.geometry.labels import normalise_label
from groundrl.parsing.answer import Answer, ParseStatus
from groundrl.rewards.ap import answer_average_precision
from groundrl.rewards.detection import COCO_THRESHOLDS, count_duplicates, scene_of
from groundrl.rewards.iou import answer_iou
from groundrl.types import Missing, RewardBreakdown, Rollout, RolloutStatus, Sample, Task

Prefix = Literal["greedy", "sampled"]
Values = dict[str, float]
CORRECT_IOU = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleResult:
    """One sample with its k completions: what was written, how it was read, what it was worth."""

    sample: Sample
    rollouts: Sequence[Rollout]
    answers: Sequence[Answer]
    breakdowns: Sequence[RewardBreakdown]

    def __post_init__(self) -> None:
        if not len(self.rollouts) == len(self.answers) == len(self.breakdowns) >= 1:
            raise ValueError(f"sample {self.sample.id}: needs one answer and one breakdown per rollout")


def _common(rollout: Rollout, answer: Answer, breakdown: RewardBreakdown) -> Values:
    readable = answer.status in (ParseStatus.OK, ParseStatus.NONE)
    values = {
        "format": float(answer.strict and readable),
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
    return {
        "image_ap": answer_average_precision(answer, sample, COCO_THRESHOLDS),
        "boxes_mean": float(len(answer.boxes)),
        "absent_boxes_mean": float(absent),
        "duplicates_mean": float(count_duplicates(answer.boxes)),
    }


def _completion_values(result: SampleResult) -> list[Values]:
    sample, rows = result.sample, list[Values]()
    for rollout, answer, breakdown in zip(result.rollouts, result.answers, result.breakdowns, strict=True):
        values = _common(rollout, answer, breakdown)
        if sample.task is Task.rec:
            iou = answer_iou(answer, sample.truth)
            values |= {"iou": iou, "acc50": float(iou > CORRECT_IOU)}
        elif sample.task is Task.ovd:
            values |= _detection(sample, answer)
        rows.append(values)
    return rows


def _best(result: SampleResult, rows: list[Values]) -> Values:
    """pass@k and best@k of one sample."""
    count, sample = len(rows), result.sample
    if sample.task is Task.rec:
        solved = any(row["acc50"] for row in rows)
        best = max(row["iou"] for row in rows)
    elif sample.task is Task.ovd:
        solved = any(answer_average_precision(answer, sample, (0.5,)) == 1 for answer in result.answers)
        best = max(row["image_ap"] for row in rows)
    else:
        return {}
    return {f"pass@{count}": float(solved), f"best@{count}": best}


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
        vectors.setdefault("tokens_max", {})[name] = max(row["tokens_mean"] for row in rows)
        for key, value in _best(result, rows).items():
            vectors.setdefault(key, {})[name] = value
    return vectors


def _maximum(values: Float64, indices: Indices) -> float:
    return float(values[indices].max())


def _detection_results(results: Sequence[SampleResult]) -> list[SampleResult]:
    return [result for result in results if result.sample.task is Task.ovd]


def _dataset_names(results: Sequence[SampleResult]) -> tuple[str, ...]:
    """Which dataset-level metrics are defined: the APs need a true box somewhere."""
    scored = any(result.sample.truth.boxes for result in results)
    return ("gp50", "gr50", "ap", "ap50") if scored else ("gp50", "gr50")


def _dataset_statistic(results: Sequence[SampleResult]) -> Callable[[Indices], Float64]:
    """The metrics of `_dataset_names` as a function of sample indices."""
    count = len(_dataset_names(results))
    sets = [
        DetectionSet([scene_of(result.answers[index], result.sample) for result in results])
        for index in range(len(results[0].answers))
    ]

    def statistic(indices: Indices) -> Float64:
        rows: list[tuple[float, ...]] = []
        for detections in sets:
            precision = detections.average_precision(indices)
            row = (*detections.precision_recall(indices), float(precision.mean()), float(precision[0]))
            rows.append(row[:count])
        return np.array(rows, dtype=np.float64).mean(axis=0)

    return statistic


def dataset_difference(
    before: Sequence[SampleResult], after: Sequence[SampleResult], *, seed: int = 0, resamples: int = 1000
) -> dict[str, Metric]:
    """after - before of ap, ap50, gp50 and gr50 by name, both computed on the same draws of samples.

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
    first = _dataset_statistic([old[name] for name in order])
    second = _dataset_statistic([new[name] for name in order])
    metrics = bootstrap_many(
        lambda indices: second(indices) - first(indices), len(order), seed=seed, resamples=resamples
    )
    return dict(zip(_dataset_names([old[name] for name in order]), metrics, strict=True))


def summarise(
    results: Sequence[SampleResult], *, prefix: Prefix, seed: int = 0, resamples: int = 1000
) -> dict[str, Metric]:
    """All metrics of one benchmark, as `<prefix>/<name>`, sorted by name.

    greedy results hold one completion a sample; sampled ones the same number k for all and get pass@k and
    best@k. Where tasks are mixed, a metric covers the samples of the tasks that have it. The interval of
    tokens_max is that of the largest value over resamples, so it never exceeds the value. Raises ValueError
    on an empty list, a repeated sample id, or completion counts that do not fit.
    """
    if not results:
        raise ValueError("no results to summarise")
    counts = {len(result.rollouts) for result in results}
    if len(counts) > 1 or (prefix == "greedy" and counts != {1}):
        raise ValueError(f"{prefix} results with {sorted(counts)} completions a sample")
    metrics: dict[str, Metric] = {}
    for name, vector in per_sample(results).items():
        if prefix == "greedy" and name.startswith(("pass@", "best@")):
            continue
        values = np.array(list(vector.values()), dtype=np.float64)
        if name == "tokens_max":
            metrics[name] = bootstrap(partial(_maximum, values), len(values), seed=seed, resamples=resamples)
        else:
            metrics[name] = bootstrap_mean(values, seed=seed, resamples=resamples)
    if detection := _detection_results(results):
        statistic = _dataset_statistic(detection)
        values = bootstrap_many(statistic, len(detection), seed=seed, resamples=resamples)
        metrics |= zip(_dataset_names(detection), values, strict=True)
    return {f"{prefix}/{name}": metrics[name] for name in sorted(metrics)}
