"""What the one line of a training step says, and how long the rest will take."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from groundrl.tracking.numbers import duration, finite, number

_WINDOW = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """One part of the line. `rank` 0 stays longest when the line has to be shortened."""

    label: str
    text: str
    unit: str = ""
    rank: int = 0

    def __str__(self) -> str:
        return " ".join(part for part in (self.label, self.text, self.unit) if part)


def step_fields(step: int, total: int, metrics: Mapping[str, float | None], eta: float | None) -> list[Field]:
    """The parts of a step's line, in order. Metrics that are absent or undefined are left out.

    `eta` is the remaining time in seconds.
    """
    count = f"{step:>{len(str(total))}}/{total}"
    fields = [Field(label="step", text=count)]
    _add(fields, metrics, "time/step", "", "s", rank=3)
    _add(fields, metrics, "reward/total", "reward", "", rank=0)
    terms = [f"{name} {number(value)}" for name, value in reward_terms(metrics).items()]
    if terms:
        fields.append(Field(label="", text=f"({', '.join(terms)})", rank=4))
    _add(fields, metrics, "rollout/tokens_mean", "length", "", rank=2)
    _add(fields, metrics, "learner/loss", "loss", "", rank=3)
    _add(fields, metrics, "learner/grad_norm", "grad", "", rank=5)
    _add(fields, metrics, "learner/lr", "lr", "", rank=7)
    _add(fields, metrics, "perf/tokens_per_s", "", "tok/s", rank=6)
    _add(fields, metrics, "perf/memory_mb", "", "MB", rank=6)
    if eta is not None:
        fields.append(Field(label="eta", text=duration(eta), rank=1))
    return fields


def reward_terms(metrics: Mapping[str, float | None]) -> dict[str, float | None]:
    """The reward's terms by name: `reward/<term>`, without the total and without `reward/<task>/total`."""
    terms: dict[str, float | None] = {}
    for name, value in metrics.items():
        group, _, term = name.partition("/")
        if group == "reward" and term != "total" and "/" not in term:
            terms[term] = value
    return terms


def fit(fields: Sequence[Field], width: int | None) -> list[Field]:
    """`fields` without those of the highest ranks, until the line fits into `width` columns."""
    kept = list(fields)
    while width is not None and len(kept) > 1 and len("  ".join(map(str, kept))) > width:
        worst = max(field.rank for field in kept)
        last = max(index for index, field in enumerate(kept) if field.rank == worst)
        del kept[last]
    return kept


class Eta:
    """Remaining time from the median of the last step times, which an evaluation in between cannot pull."""

    def __init__(self) -> None:
        self._times: deque[float] = deque(maxlen=_WINDOW)

    def add(self, seconds: float) -> None:
        self._times.append(seconds)

    def remaining(self, steps: int) -> float | None:
        """Seconds for `steps` more steps; None before the first time is known."""
        return median(self._times) * steps if self._times else None


def _add(
    fields: list[Field], metrics: Mapping[str, float | None], name: str, label: str, unit: str, *, rank: int
) -> None:
    value = finite(metrics.get(name))
    if value is not None:
        fields.append(Field(label=label, text=number(value), unit=unit, rank=rank))
