"""The gallery: the same held-out samples over the steps, and training groups."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from markupsafe import Markup

from groundrl.reporting.equation import Equation, equation
from groundrl.reporting.images import EmbeddedImage, embed
from groundrl.reporting.overlay import MAX_BOXES, overlay
from groundrl.reporting.records import AnswerShown, GalleryRecord
from groundrl.tracking.base import EVAL

MAX_STEPS = 12
MAX_SAMPLES = 16
MAX_GROUPS = 8
MAX_ANSWERS = 16
MAX_CHARS = 3000

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerView:
    """One answer as the template shows it."""

    kind: str
    tone: str
    parse_status: str
    status: str
    facts: str
    think: str
    answer: str
    equation: Equation
    boxes: Markup
    thumb: Markup


@dataclass(frozen=True, slots=True, kw_only=True)
class Shot:
    """A sample at one step: the answer shown and the other completions of its group."""

    step: int
    total: str
    main: AnswerView
    others: list[AnswerView]


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleView:
    """A sample with its image and its shots in order of step; `image` is None when the file is missing."""

    sample_id: str
    task: str
    question: str
    targets: list[str]
    truth_answer: str
    image: EmbeddedImage | None
    size: tuple[int, int]
    pixelated: bool
    shots: list[Shot]


@dataclass(frozen=True, slots=True, kw_only=True)
class GalleryView:
    """`steps` are those of the slider; `groups` are training groups, one shot each."""

    steps: list[int]
    samples: list[SampleView]
    groups: list[SampleView]
    notes: list[str]


def build_gallery(run_dir: Path, records: Sequence[GalleryRecord]) -> GalleryView:
    """Choose evenly what is shown where there is too much, and embed the images."""
    notes: list[str] = []
    held_out = [record for record in records if record.phase == EVAL]
    steps = spread(sorted({record.step for record in held_out}), MAX_STEPS)
    by_sample: dict[str, dict[int, GalleryRecord]] = {}
    for record in held_out:
        if record.step in steps:
            by_sample.setdefault(record.sample_id, {})[record.step] = record
    chosen = list(by_sample.values())[:MAX_SAMPLES]
    samples = [_sample(run_dir, [found[step] for step in sorted(found)], notes) for found in chosen]
    groups = spread([record for record in records if record.phase != EVAL and record.answers], MAX_GROUPS)
    shown = [_sample(run_dir, [record], notes) for record in groups]
    return GalleryView(steps=steps, samples=samples, groups=shown, notes=notes)


def spread(items: Sequence[T], limit: int) -> list[T]:
    """At most `limit` items, evenly spaced, the first and the last among them."""
    if len(items) <= limit:
        return list(items)
    return [items[round(index * (len(items) - 1) / (limit - 1))] for index in range(limit)]


def _sample(run_dir: Path, records: Sequence[GalleryRecord], notes: list[str]) -> SampleView:
    last = records[-1]
    image = embed(run_dir, last.image)
    if image is None:
        notes.append(f"The image of sample {last.sample_id} is missing or is no image.")
    size = last.size or (image.size if image else (100, 100))
    return SampleView(
        sample_id=last.sample_id,
        task=last.task,
        question=last.question,
        targets=last.targets,
        truth_answer=last.truth_answer,
        image=image,
        size=size,
        pixelated=max(size) <= 256,
        shots=[_shot(record, size) for record in records if record.answers],
    )


def _shot(record: GalleryRecord, size: tuple[int, int]) -> Shot:
    answers = sorted(record.answers[:MAX_ANSWERS], key=lambda answer: answer.kind != "greedy")
    views = [_answer(answer, record, size) for answer in answers]
    return Shot(step=record.step, total=_rounded(answers[0].total), main=views[0], others=views[1:])


def _answer(answer: AnswerShown, record: GalleryRecord, size: tuple[int, int]) -> AnswerView:
    facts = [f"{len(answer.boxes)} box{'' if len(answer.boxes) == 1 else 'es'}"]
    if len(answer.boxes) > MAX_BOXES:
        facts[0] += f" ({MAX_BOXES} drawn)"
    if answer.rejected:
        facts.append(f"refused: {_counted(answer.rejected)}")
    if answer.tokens is not None:
        facts.append(f"{answer.tokens} tokens")
    good = answer.parse_status in ("ok", "none") and answer.status in ("finished", "")
    return AnswerView(
        kind=answer.kind,
        tone="good" if good else "bad",
        parse_status=answer.parse_status,
        status="" if answer.status == "finished" else answer.status,
        facts=", ".join(facts),
        think=_cut(answer.think),
        answer=_cut(_without_think(answer.text, answer.think)),
        equation=equation(answer),
        boxes=overlay(size, record.truth, answer.boxes, labels=True),
        thumb=overlay(size, record.truth, answer.boxes, labels=False),
    )


def _rounded(total: float | None) -> str:
    return "?" if total is None else f"{total:.2f}"


def _without_think(text: str, think: str) -> str:
    """The raw text with its reasoning, which is shown apart, replaced by an ellipsis."""
    return text.replace(think, "…", 1) if think else text


def _cut(text: str) -> str:
    if len(text) <= MAX_CHARS:
        return text
    return f"{text[:MAX_CHARS]} … ({len(text) - MAX_CHARS} more characters in gallery.jsonl)"


def _counted(reasons: Sequence[str]) -> str:
    counts = {reason: reasons.count(reason) for reason in dict.fromkeys(reasons[:1000])}
    shown = [reason if count == 1 else f"{count} x {reason}" for reason, count in counts.items()]
    return ", ".join(shown[:6]) + (", …" if len(shown) > 6 else "")
