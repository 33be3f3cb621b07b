"""AP per source of the samples, and means over sources: ODinW's average, OVDEval's aspects.

per_source  source/<name>/ap, mean_ap
ovdeval     subset/<name>/nms_ap, aspect/<name>, overall; an aspect needs all its sub-sets, and the overall
            mean all aspects

The values are pycocotools'. A resample draws from each source as many samples as it has, so the interval of a
mean takes the sources as given. A source without a true box has no AP and is in no mean.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from groundrl.evaluation.bootstrap import Metric, percentile, resample_indices
from groundrl.evaluation.coco import coco_metrics
from groundrl.evaluation.config import Measure
from groundrl.evaluation.detection import DetectionSet
from groundrl.evaluation.metrics import SampleResult
from groundrl.evaluation.ovdeval import aspect_weights, nms_ap, suppress
from groundrl.geometry.boxes import Float64
from groundrl.rewards.detection import Scene, scene_of


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceScores:
    """names [S] of the sources, their AP values [S], and draws [R, S] of them."""

    names: tuple[str, ...]
    values: Float64
    draws: Float64


def source_metrics(
    results: Sequence[SampleResult], measure: Measure, *, seed: int = 0, resamples: int = 1000
) -> dict[str, Metric]:
    """The metrics of `measure` over greedy results (one completion a sample), by name."""
    if measure is Measure.plain:
        return {}
    scores = _scores(results, measure, seed=seed, resamples=resamples)
    return _combined(scores, measure, scores.values, scores.draws)


def source_difference(
    before: Sequence[SampleResult],
    after: Sequence[SampleResult],
    measure: Measure,
    *,
    seed: int = 0,
    resamples: int = 1000,
) -> dict[str, Metric]:
    """after - before of `source_metrics`, both on the same draws of the same samples."""
    if measure is Measure.plain:
        return {}
    old = _scores(before, measure, seed=seed, resamples=resamples)
    new = _scores(after, measure, seed=seed, resamples=resamples)
    return _combined(new, measure, new.values - old.values, new.draws - old.draws)


def _scores(results: Sequence[SampleResult], measure: Measure, *, seed: int, resamples: int) -> SourceScores:
    """AP of each source in the order of first appearance, for OVDEval after its suppression."""
    scenes: dict[str, list[Scene]] = {}
    for result in results:
        scenes.setdefault(result.sample.source, []).append(scene_of(result.answers[0], result.sample))
    names = [name for name, own in scenes.items() if any(scene.truths for scene in own)]
    suppressed = measure is Measure.ovdeval
    ap = nms_ap if suppressed else coco_metrics
    values = np.array([ap(scenes[name]).ap for name in names])
    draws = np.zeros((resamples, len(names)))
    for column, name in enumerate(names):
        own = scenes[name]
        detections = DetectionSet([_suppressed(scene) for scene in own] if suppressed else own)
        whole = float(detections.average_precision().mean())
        for row, indices in enumerate(resample_indices(len(own), seed=(seed, column), resamples=resamples)):
            # rounding apart, `whole` is the value: the draws move along with it
            draws[row, column] = detections.average_precision(indices).mean() - whole + values[column]
    return SourceScores(names=tuple(names), values=values, draws=draws)


def _suppressed(scene: Scene) -> Scene:
    kept = suppress(scene, [1.0] * len(scene.predictions))
    return replace(scene, predictions=tuple(scene.predictions[index] for index in kept))


def _combined(scores: SourceScores, measure: Measure, values: Float64, draws: Float64) -> dict[str, Metric]:
    """The metrics of `measure`, each a mean of some sources."""
    rows = _weights(scores.names, measure)
    return {
        name: percentile(float(weights @ values), np.asarray(draws @ weights, dtype=np.float64))
        for name, weights in rows.items()
    }


def _weights(names: Sequence[str], measure: Measure) -> dict[str, NDArray[np.float64]]:
    """Metric name -> the weight [S] of each source in it."""
    one = dict(zip(names, np.eye(len(names)), strict=True))
    if measure is Measure.per_source:
        own = {f"source/{name}/ap": row for name, row in one.items()}
        return own | ({"mean_ap": np.full(len(one), 1 / len(one))} if one else {})
    return {f"subset/{name}/nms_ap": row for name, row in one.items()} | aspect_weights(names)
