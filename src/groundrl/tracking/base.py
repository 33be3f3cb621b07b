"""The tracker interface and the shape of what is tracked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol, TypedDict

from groundrl.types import LabeledBox

TRAIN = "train"
EVAL = "eval"
Prefix = Literal["greedy", "sampled", "verified"]
HELD_OUT: tuple[Prefix, ...] = ("greedy", "sampled", "verified")
"""First part of the metrics of the held-out split, which says how its answers were drawn: the likeliest ones,
at the training temperature, or the likeliest ones in a loop of verification."""


class Interval(TypedDict):
    """A metric with the ends of its confidence interval, all three in the metric's own unit."""

    value: float | None
    low: float | None
    high: float | None


Metrics = Mapping[str, float | Interval | None]
"""Flat metric names (`reward/total`) to a number, an interval (evaluation), or None where not defined."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Picture:
    """One answer to one image, as it stands in the gallery.

    phase: "train" or "eval"; kind: one of HELD_OUT
    image: the stored first image, None for a sample without one; truth and boxes are its boxes in original
    pixels (x1, y1, x2, y2)
    reward: the total, None where not defined; tokens: those the policy wrote
    """

    step: int
    phase: str
    sample_id: str
    question: str
    image: Path | None
    truth: Sequence[LabeledBox]
    kind: str
    text: str
    parse_status: str
    boxes: Sequence[LabeledBox]
    reward: float | None
    tokens: int


class Tracker(Protocol):
    """Receives the numbers of a run, and pictures of its answers.

    log      stores the metrics of one step; `kind` is "train" or "eval"
    show     stores answers of one step and phase with their images
    state    what a resumed run must hand back to continue the same record; plain JSON values
    finish   closes the record; `status` is "finished" or "interrupted", `summary` what the run came to
    """

    def log(self, step: int, kind: str, metrics: Metrics) -> None: ...

    def show(self, pictures: Sequence[Picture]) -> None: ...

    def state(self) -> dict[str, Any]: ...

    def finish(self, status: str, summary: Metrics) -> None: ...


def scalars(kind: str, metrics: Metrics) -> dict[str, float]:
    """Flat name to number, for services that only know scalars.

    An interval becomes three names (`x`, `x/low`, `x/high`). Evaluation names get the prefix `eval/` unless
    they have it. Undefined values are left out.
    """
    flat: dict[str, float] = {}
    for name, value in metrics.items():
        full = f"eval/{name}" if kind == EVAL and not name.startswith("eval/") else name
        if isinstance(value, Mapping):
            parts = {full: value["value"], f"{full}/low": value["low"], f"{full}/high": value["high"]}
        else:
            parts = {full: value}
        flat.update({key: float(number) for key, number in parts.items() if number is not None})
    return flat
