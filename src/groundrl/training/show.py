"""What of a run is put into the gallery, on the terminal and into a tracker's summary."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from groundrl.evaluation.metrics import SampleResult
from groundrl.evaluation.suite import Evaluation
from groundrl.tracking.base import HELD_OUT, Interval, Picture
from groundrl.tracking.gallery import Gallery, GalleryRollout
from groundrl.training.method import Graded

HEADLINES = (
    "greedy/iou",
    "greedy/acc50",
    "greedy/ap",
    "greedy/ap50",
    "greedy/gp50",
    "greedy/gr50",
    "greedy/accuracy",
    "greedy/point_f1",
    "greedy/false_alarm",
    "greedy/boxes_mean",
    "greedy/format",
    "greedy/tokens_mean",
    "verified/accuracy",
    "verified/acc50",
    "verified/informedness",
    "verified/turns_mean",
    "sampled/iou",
    "sampled/acc50",
    "sampled/ap",
)
MOST_ROLLOUTS = 4


BENCHMARK_HEADLINES = ("overall", "mean_ap", "ap", "ap50", "gp50", "gr50", "acc50", "accuracy", "point_f1")


def shown(metrics: Mapping[str, Any]) -> dict[str, Any]:
    """The metrics that fit on a terminal, in a fixed order, those of benchmarks (NAME/metric) behind."""
    out = {name: metrics[name] for name in HEADLINES if name in metrics}
    for name, value in metrics.items():
        prefix, _, metric = name.partition("/")
        if prefix not in HELD_OUT and metric in BENCHMARK_HEADLINES:
            out[name] = value
    return out


def headlines(evals: Mapping[str, Any]) -> dict[str, Any]:
    """The evaluations of `result.json` cut down to what fits on a terminal."""
    out: dict[str, Any] = {}
    for key in ("before", "after", "difference"):
        flat = dict(evals.get(key, {}))
        for name, entry in evals.get("benchmarks", {}).items():
            flat |= {f"{name}/{m.removeprefix('greedy/')}": v for m, v in entry.get(key, {}).items()}
        out[key] = shown(flat)
    out["references"] = {name: shown(values) for name, values in evals.get("references", {}).items()}
    return out


def summary(result: Mapping[str, Any]) -> dict[str, float | Interval | None]:
    """What `result.json` says of the whole run, under flat names: `after/greedy/iou`, `best`, `steps`."""
    shown_evals = headlines(result["eval"])
    flat: dict[str, float | Interval | None] = {
        f"{when}/{name}": value
        for when in ("before", "after", "difference")
        for name, value in shown_evals[when].items()
    }
    best = result["best"]
    return flat | {key: result[key] for key in ("steps", "train_seconds")} | {"best": best["value"]}


def show_evaluation(gallery: Gallery, step: int, evaluation: Evaluation) -> list[Picture]:
    """The followed held-out samples with their greedy, verified and first sampled answers."""
    pictures: list[Picture] = []
    sampled, verified = (
        {result.sample.id: result for result in evaluation.results[prefix]}
        for prefix in ("sampled", "verified")
    )
    for result in evaluation.greedy:
        if not gallery.follows(result.sample.id):
            continue
        entries = _entries("greedy", result)
        if result.sample.id in verified:
            entries += _entries("verified", verified[result.sample.id])
        if result.sample.id in sampled:
            entries += _entries("sampled", sampled[result.sample.id])[: MOST_ROLLOUTS - len(entries)]
        pictures += gallery.add(step, "eval", result.sample, entries)
    return pictures


def show_group(gallery: Gallery, step: int, graded: Sequence[Graded]) -> list[Picture]:
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
    return gallery.add(step, "train", own[0].sample, entries)


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
