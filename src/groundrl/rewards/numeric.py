"""1 where the answered number is close enough to the true one, else 0.

Close is |answer - truth| <= max(rel_tol * |truth|, abs_tol), compared in decimal arithmetic so that the
limit itself is reached exactly. The default is the 5 % of relaxed accuracy (Methani et al. 2020, PlotQA;
Masry et al. 2022, ChartQA). A truth of 0 is only met by 0 unless `abs_tol` is set. A truth that is no number
("N/A") is compared as text, and the detail says so. A wrong number earns nothing, however similar it looks.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import Decimal
from enum import StrEnum

from groundrl.config.registry import register
from groundrl.errors import ConfigError
from groundrl.parsing.number import Number, read_number
from groundrl.rewards.base import ScoreContext, TermConfig
from groundrl.rewards.true_answer import read_ok, same_text, true_text
from groundrl.types import Missing, Rollout, Sample, Scored, Task


class Percent(StrEnum):
    """What "12%" is: 12 (the sign is a unit), or 0.12."""

    as_written = "as_written"
    fraction = "fraction"


@dataclass(frozen=True, slots=True, kw_only=True)
class Numeric:
    """detail: `readable`, and `numeric_truth`: 0 where the truth is text and was compared as such."""

    tasks = frozenset({Task.numeric})
    needs = ()

    rel_tol: float = 0.05
    abs_tol: float = 0.0
    percent: Percent = Percent.as_written

    def score(self, rollout: Rollout, sample: Sample, context: ScoreContext) -> Scored | Missing:
        text = true_text(sample)
        if isinstance(text, Missing):
            return text
        answer = context.answer
        truth = read_number(text)
        detail = read_ok(answer.status) | {"numeric_truth": float(truth is not None)}
        if truth is None:
            return Scored(float(same_text(answer.body, text)), detail)
        claimed = None if answer.body is None else read_number(answer.body)
        return Scored(float(claimed is not None and self._close(claimed, truth)), detail)

    def _close(self, claimed: Number, truth: Number) -> bool:
        true = self._decimal(truth)
        limit = max(Decimal(repr(self.rel_tol)) * abs(true), Decimal(repr(self.abs_tol)))
        return abs(self._decimal(claimed) - true) <= limit

    def _decimal(self, number: Number) -> Decimal:
        scale = 100 if number.percent and self.percent is Percent.fraction else 1
        return Decimal(number.value) / scale


@register("reward/term", "numeric")
@dataclass(kw_only=True, slots=True)
class NumericConfig(TermConfig):
    """`rel_tol` is a share of the truth, `abs_tol` is in its unit; `percent`: see `Percent`."""

    rel_tol: float = 0.05
    abs_tol: float = 0.0
    percent: Percent = Percent.as_written

    def __post_init__(self) -> None:
        TermConfig.__post_init__(self)
        if not 0 <= self.rel_tol < 1:
            raise ConfigError("rel_tol", "must be in [0, 1)", got=self.rel_tol, todo="use e.g. 0.05")
        if not 0 <= self.abs_tol < math.inf:
            raise ConfigError(
                "abs_tol", "must be finite and not negative", got=self.abs_tol, todo="use e.g. 0"
            )

    def build(self) -> Numeric:
        return Numeric(rel_tol=self.rel_tol, abs_tol=self.abs_tol, percent=self.percent)
