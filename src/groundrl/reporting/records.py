"""Gallery records as the report reads them: anything that is missing or of the wrong kind becomes empty."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from groundrl.tracking.numbers import finite
from groundrl.types import XYXY


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownBox:
    """A box in original pixels with its label."""

    xyxy: XYXY
    label: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TermShown:
    """One reward term of an answer; `value` is None when it could not be computed."""

    name: str
    value: float | None
    weight: float
    detail: Mapping[str, float]
    missing: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerShown:
    """One answer of the policy."""

    kind: str
    text: str
    think: str
    status: str
    parse_status: str
    boxes: list[ShownBox]
    rejected: list[str]
    tokens: int | None
    total: float | None
    terms: list[TermShown]


@dataclass(frozen=True, slots=True, kw_only=True)
class GalleryRecord:
    """What one sample got at one step; `size` is (width, height) of the original image, if known."""

    step: int
    phase: str
    sample_id: str
    task: str
    question: str
    targets: list[str]
    truth_answer: str
    image: str
    size: tuple[int, int] | None
    truth: list[ShownBox]
    answers: list[AnswerShown]


def read_record(raw: Mapping[str, Any]) -> GalleryRecord | None:
    """A record from one line of `gallery.jsonl`; None without a step and a sample id."""
    step, sample_id = finite(raw.get("step")), text(raw.get("sample_id"))
    if step is None or not sample_id:
        return None
    return GalleryRecord(
        step=int(step),
        phase=text(raw.get("phase")),
        sample_id=sample_id,
        task=text(raw.get("task")),
        question=text(raw.get("question")),
        targets=[text(target) for target in _list(raw.get("targets"))],
        truth_answer=text(raw.get("answer")),
        image=text(raw.get("image")),
        size=_size(raw.get("size")),
        truth=_boxes(raw.get("truth")),
        answers=[_answer(_dict(entry)) for entry in _list(raw.get("rollouts"))],
    )


def text(value: Any) -> str:
    """`value` as text that can be written as UTF-8: empty for None, half surrogate pairs replaced."""
    if value is None:
        return ""
    return str(value).encode("utf-8", "replace").decode("utf-8")


def _answer(raw: Mapping[str, Any]) -> AnswerShown:
    reward = _dict(raw.get("reward"))
    tokens = finite(raw.get("tokens"))
    return AnswerShown(
        kind=text(raw.get("kind")),
        text=text(raw.get("text")),
        think=text(raw.get("think")),
        status=text(raw.get("status")),
        parse_status=text(raw.get("parse_status")),
        boxes=_boxes(raw.get("boxes")),
        rejected=[text(reason) for reason in _list(raw.get("rejected"))],
        tokens=None if tokens is None else int(tokens),
        total=finite(reward.get("total")),
        terms=[_term(text(name), _dict(term)) for name, term in _dict(reward.get("terms")).items()],
    )


def _term(name: str, raw: Mapping[str, Any]) -> TermShown:
    weight = finite(raw.get("weight"))
    numbers = {text(key): finite(value) for key, value in _dict(raw.get("detail")).items()}
    return TermShown(
        name=name,
        value=finite(raw.get("value")),
        weight=1.0 if weight is None else weight,
        detail={key: value for key, value in numbers.items() if value is not None},
        missing=text(raw.get("missing")),
    )


def _boxes(raw: Any) -> list[ShownBox]:
    boxes: list[ShownBox] = []
    for entry in _list(raw):
        edges = [finite(edge) for edge in _list(_dict(entry).get("bbox"))]
        known = [edge for edge in edges if edge is not None]
        if len(edges) == 4 and len(known) == 4:
            xyxy = (known[0], known[1], known[2], known[3])
            boxes.append(ShownBox(xyxy=xyxy, label=text(_dict(entry).get("label"))))
    return boxes


def _size(raw: Any) -> tuple[int, int] | None:
    sides = [finite(side) for side in _list(raw)]
    if len(sides) == 2 and sides[0] and sides[1] and min(sides[0], sides[1]) >= 1:
        return int(sides[0]), int(sides[1])
    return None


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _dict(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}
