"""A reward written as the sum it is."""

from __future__ import annotations

from dataclasses import dataclass

from groundrl.reporting.records import AnswerShown, TermShown

_TOLERANCE = 2e-3


@dataclass(frozen=True, slots=True, kw_only=True)
class Summand:
    """`sign weight x name value`; the first sign is empty unless it is a minus."""

    sign: str
    weight: str
    name: str
    value: str
    detail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Equation:
    """`total` = the summands; `remark` says where that does not hold."""

    total: str
    summands: list[Summand]
    remark: str

    def __str__(self) -> str:
        """`total 0.72 = 1.0 x iou 0.52 + 0.2 x format 1.0`, with the real multiplication sign."""
        parts = [f"{s.sign} {s.weight} × {s.name} {s.value}".strip() for s in self.summands]
        return f"total {self.total}" + (f" = {' '.join(parts)}" if parts else "")


def equation(answer: AnswerShown) -> Equation:
    """The reward of `answer` term by term.

    The sum is checked: where weights and values do not give the stored total, the remark says what they
    give, instead of showing an equation that is false.
    """
    missing = [term for term in answer.terms if term.value is None]
    remark = ""
    if missing:
        reasons = ", ".join(
            f"{term.name} ({term.missing})" if term.missing else term.name for term in missing
        )
        remark = f"no value for {reasons}: the rollout was masked"
    elif answer.terms and answer.total is not None:
        total = sum(term.weight * (term.value or 0.0) for term in answer.terms)
        if abs(total - answer.total) > _TOLERANCE * max(1.0, abs(total)):
            remark = f"the terms sum to {short(total)}"
    summands = [_summand(term, first=index == 0) for index, term in enumerate(answer.terms)]
    return Equation(total=short(answer.total), summands=summands, remark=remark)


def short(value: float | None) -> str:
    """Up to three decimals and at least one: `0.72`, `1.0`; a question mark for no value."""
    if value is None:
        return "?"
    if value and abs(value) < 5e-4:
        return f"{value:.1e}"
    trimmed = f"{value:.3f}".rstrip("0")
    return f"{trimmed}0" if trimmed.endswith(".") else trimmed


def _summand(term: TermShown, *, first: bool) -> Summand:
    negative = term.weight < 0
    sign = ("−" if negative else "") if first else ("−" if negative else "+")
    told = {name: value for name, value in term.detail.items() if (name, value) != (term.name, term.value)}
    detail = ", ".join(f"{name} {short(value)}" for name, value in told.items())
    return Summand(
        sign=sign, weight=short(abs(term.weight)), name=term.name, value=short(term.value), detail=detail
    )
