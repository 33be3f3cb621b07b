"""What of a run is put into the gallery and on the terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from groundrl.evaluation.metrics import SampleResult
from groundrl.evaluation.suite import Evaluation
from groundrl.tracking.gallery import Gallery, GalleryRollout
from groundrl.training.method import Graded

HEADLINES = (
    "greedy/iou",
    "greedy/acc50",
    "greedy/ap",
    "greedy/ap50",
    "greedy/gp50",
    "greedy/gr50",
    "greedy/false_alarm",
    "greedy/boxes_mean",
    "greedy/format",
    "greedy/tokens_mean",
    "sampled/iou",
    "sampled/acc50",
    "sampled/ap",
)
MOST_ROLLOUTS = 4


def shown(metrics: Mapping[str, Any]) -> dict[str, Any]:
    """The metrics that fit on a terminal, in a fixed order."""
    return {name: metrics[name] for name in HEADLINES if name in metrics}


def show_evaluation(gallery: Gallery, step: int, evaluation: Evaluation) -> None:
    """The followed held-out samples with their greedy and first sampled answers."""
    sampled = {result.sample.id: result for result in evaluation.sampled}
    for result in evaluation.greedy:
        if not gallery.follows(result.sample.id):
            continue
        entries = _entries("greedy", result)
        if result.sample.id in sampled:
            entries += _entries("sampled", sampled[result.sample.id])[: MOST_ROLLOUTS - 1]
        gallery.add(step, "eval", result.sample, entries)


def show_group(gallery: Gallery, step: int, graded: Sequence[Graded]) -> None:
    """The first group of a training batch."""
    own = [entry for entry in graded if entry.rollout.group == graded[0].rollout.group]
    entries = [
        GalleryRollout(
            kind="sampled",
            rollout=entry.rollout,
            breakdown=entry.breakdown,
            boxes=entry.answer.boxes,
            rejected=entry.answer.rejected,
            think=entry.answer.think,
        )
        for entry in own[:MOST_ROLLOUTS]
    ]
    gallery.add(step, "train", own[0].sample, entries)


def _entries(kind: str, result: SampleResult) -> list[GalleryRollout]:
    return [
        GalleryRollout(
            kind=kind,
            rollout=rollout,
            breakdown=breakdown,
            boxes=answer.boxes,
            rejected=answer.rejected,
            think=answer.think,
        )
        for rollout, answer, breakdown in zip(result.rollouts, result.answers, result.breakdowns, strict=True)
    ]
