"""Samples, answers and composed rubrics for the tests of known kinds of bug."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cache
from typing import Any

from groundrl.config.compose import compose_run
from groundrl.config.repo import conf_dir
from groundrl.evaluation.metrics import SampleResult, summarise
from groundrl.rewards.graded import Graded
from groundrl.rewards.rubric import Rubric
from groundrl.rollout.written import written_rollout
from groundrl.types import (
    XYXY,
    CoordinateSpace,
    ImageFrame,
    LabeledBox,
    Missing,
    RolloutStatus,
    Sample,
    Size,
    Task,
    Truth,
)

Box = tuple[XYXY, str]
"""A box and its label."""

Item = tuple[Sequence[object], str]
"""Coordinates as they are written, and a label."""

DETECTION = tuple(
    path.stem
    for path in sorted((conf_dir() / "reward").glob("*.yaml"))
    if "override /task@_global_.task: ovd" in path.read_text("utf-8")
)
"""Every reward option that is written for detection."""

MAIN = {"ws_cosine": "weighted_sum", "ws_cosine_rep": "weighted_sum", "ap_region": "ap"}
"""The accuracy term of a reward option, where it does not have the option's name."""

EVERY_DETECTION_TERM = (
    "reward=ws_cosine_rep",
    *(
        f"+reward/term@reward.terms.{name}={name}"
        for name in ("ap", "ap50", "odlength", "ap_strict", "f1", "hungarian", "repetition_box")
    ),
)
ACCURACY = ("ap", "ap50", "odlength", "ap_strict", "f1", "hungarian", "weighted_sum")
"""The terms of `EVERY_DETECTION_TERM` that say how right an answer is; all are 1 for the truth."""

HARDENED = ("ap_strict", "f1", "hungarian")


@cache
def rubric(*words: str) -> Rubric:
    """The rubric that these command-line words compose."""
    return compose_run(list(words)).reward.build()


def frame(original: Size, processed: Size | None = None) -> ImageFrame:
    return ImageFrame(original=original, processed=processed or original)


VGA = frame((640, 480))


def sample(
    task: Task,
    *items: Box | LabeledBox,
    answer: str | None = None,
    name: str = "s",
    targets: Sequence[str] = (),
) -> Sample:
    """A sample without pixels; of detection, the true labels and `targets` are asked for."""
    boxes = tuple(
        item if isinstance(item, LabeledBox) else LabeledBox(xyxy=item[0], label=item[1]) for item in items
    )
    asked = tuple(dict.fromkeys([*(box.label for box in boxes), *targets])) if task is Task.ovd else ()
    truth = Truth(boxes=boxes, answer=answer)
    return Sample(id=name, task=task, images=(), truth=truth, targets=asked)


def wrap(body: str, think: str = "t") -> str:
    return f"<think>{think}</think>\n<answer>{body}</answer>"


def fenced(document: object) -> str:
    return wrap(f"```json\n{json.dumps(document, ensure_ascii=False)}\n```")


def listed(*items: Item) -> str:
    """A detection answer in the asked form."""
    return fenced([{"bbox_2d": list(box), "label": label} for box, label in items])


def boxed(*coordinates: object) -> str:
    """A one-box answer."""
    return wrap(json.dumps({"bbox_2d": list(coordinates)}))


def grade(
    rules: Rubric,
    target: Sample,
    text: str,
    *,
    frames: Sequence[ImageFrame] = (VGA,),
    space: CoordinateSpace = CoordinateSpace.PIXEL_ORIGINAL,
    status: RolloutStatus = RolloutStatus.FINISHED,
    tokens: int = 0,
    progress: float = 0.0,
) -> Graded:
    rollout = written_rollout(target.id, text, frames, space=space, status=status, tokens=tokens)
    return rules.grade(rollout, target, progress=progress)


def values(graded: Graded) -> dict[str, float]:
    """The value of each term."""
    found: dict[str, float] = {}
    for name, term in graded.breakdown.terms.items():
        assert not isinstance(term, Missing), term
        found[name] = term.value
    return found


def graded_by_all(target: Sample, text: str, **more: Any) -> Graded:
    """Graded by every detection term; `more` as in `grade`."""
    return grade(rubric(*EVERY_DETECTION_TERM), target, text, **more)


def accuracies(target: Sample, text: str, **more: Any) -> dict[str, float]:
    """What every detection term that says how right an answer is pays for it."""
    found = values(graded_by_all(target, text, **more))
    return {name: found[name] for name in ACCURACY}


def all_at(value: float) -> dict[str, float]:
    """The same value from each of those terms."""
    return dict.fromkeys(ACCURACY, value)


def hardened(target: Sample, text: str) -> tuple[float, ...]:
    """What the hardened terms pay: ap_strict, f1, hungarian."""
    found = accuracies(target, text)
    return tuple(found[name] for name in HARDENED)


def main_term(option: str, graded: Graded) -> float:
    """The accuracy of an answer under a reward option of `DETECTION`."""
    return values(graded)[MAIN.get(option, option)]


def measured(*rows: Graded) -> dict[str, float]:
    """The greedy metrics that evaluation reports for these answers, one a sample."""
    metrics = summarise([SampleResult.of([row]) for row in rows], prefix="greedy", resamples=0)
    return {name.removeprefix("greedy/"): metric.value for name, metric in metrics.items()}
