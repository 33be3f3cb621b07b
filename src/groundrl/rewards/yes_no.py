"""1 where answer and truth are both yes or both no, else 0.

The released VLM-R1 term takes the first "yes" or "no" found anywhere in both texts, so that "know" is a no,
and an answer that says neither equals a truth that says neither. Here words are whole words, and an answer
that says neither is worth 0.
"""

from __future__ import annotations

from dataclasses import dataclass

from groundrl.config.registry import register
from groundrl.rewards.base import ScoreContext, TermConfig
from groundrl.rewards.true_answer import read_ok, true_value
from groundrl.types import Missing, Rollout, Sample, Scored, Task


@dataclass(frozen=True, slots=True, kw_only=True)
class YesNo:
    """detail: `readable`. Missing where the truth is neither yes nor no."""

    tasks = frozenset({Task.yes_no})
    needs = ()

    def score(self, rollout: Rollout, sample: Sample, context: ScoreContext) -> Scored | Missing:
        truth = true_value(sample)
        if isinstance(truth, Missing):
            return truth
        return Scored(float(context.answer.value == truth), read_ok(context.answer.status))


@register("reward/term", "yes_no")
@dataclass(kw_only=True, slots=True)
class YesNoConfig(TermConfig):
    """No settings besides `weight`."""

    def build(self) -> YesNo:
        return YesNo()
