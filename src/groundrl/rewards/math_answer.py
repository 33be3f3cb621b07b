"""1 where answer and truth are the same expression, else 0: 0.5 is 1/2, x^2 + 2x + 1 is (x + 1)^2.

Equal canonical answers (`parsing/final.py`) count without algebra, and nothing else does where either side is
not an expression that is cheap to evaluate (`parsing/expression.py`). The rest is decided by math-verify,
whose conventions hold: numbers are equal when their first six decimals are, the last side of an equation
counts ("x = 5" is 5), a list without order is a set.

A model could write slow algebra on purpose: when the time is up the value is 0, not missing, and the detail
says so.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass

from groundrl.config.registry import register
from groundrl.errors import ConfigError
from groundrl.parsing.expression import cheap_to_compare, read_expression
from groundrl.rewards.base import ScoreContext, TermConfig
from groundrl.rewards.deadline import TimeUp, deadline
from groundrl.rewards.true_answer import read_ok, same_text, true_text, true_value
from groundrl.types import Missing, Rollout, Sample, Scored, Task


def same_expression(answer: str, truth: str) -> bool:
    """Whether two pieces of LaTeX, both from `read_expression`, are equal; the caller limits the time."""
    from math_verify import LatexExtractionConfig, parse, verify
    from math_verify.parser import NormalizationConfig

    logging.getLogger("math_verify").setLevel(logging.ERROR)  # it warns that its own time limit is off
    normal = NormalizationConfig(malformed_operators=True, nits=True, boxed="none")
    read = [LatexExtractionConfig(boxed_match_priority=-1, normalization_config=normal)]
    gold, claimed = (
        parse(f"${side}$", extraction_config=read, fallback_mode="no_fallback", parsing_timeout=0)
        for side in (truth, answer)
    )
    return verify(gold, claimed, timeout_seconds=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class MathAnswer:
    """detail: `readable`; `symbolic`: 1 where algebra was asked; `timed_out`: 1 where it took too long.

    `timeout_s` bounds one comparison in a process's main thread. In other threads only the limits on the
    expressions themselves hold.
    """

    tasks = frozenset({Task.numeric, Task.text})
    needs = ()

    timeout_s: float = 5.0

    def score(self, rollout: Rollout, sample: Sample, context: ScoreContext) -> Scored | Missing:
        text = true_text(sample)
        if isinstance(text, Missing):
            return text
        answer = context.answer
        detail = read_ok(answer.status) | {"symbolic": 0.0, "timed_out": 0.0}
        truth = true_value(sample)
        if same_text(answer.body, text) or (isinstance(truth, str) and same_text(answer.value, truth)):
            return Scored(1.0, detail)
        claimed = None if answer.body is None else read_expression(answer.body)
        true = read_expression(text)
        if claimed is None or true is None or not cheap_to_compare(claimed, true):
            return Scored(0.0, detail)
        detail["symbolic"] = 1.0
        try:
            with deadline(self.timeout_s):
                return Scored(float(same_expression(claimed, true)), detail)
        except TimeUp:
            return Scored(0.0, detail | {"timed_out": 1.0})


@register("reward/term", "math")
@dataclass(kw_only=True, slots=True)
class MathConfig(TermConfig):
    """`timeout_s`: seconds one comparison may take; past them the answer is worth 0."""

    timeout_s: float = 5.0

    def __post_init__(self) -> None:
        TermConfig.__post_init__(self)
        if not 0 < self.timeout_s <= 60:
            raise ConfigError(
                "timeout_s", "must be in (0, 60] seconds", got=self.timeout_s, todo="use e.g. 5"
            )

    def build(self) -> MathAnswer:
        return MathAnswer(timeout_s=self.timeout_s)
