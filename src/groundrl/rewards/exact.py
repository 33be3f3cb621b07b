"""1 where the answer is the true text, else 0: equal after `normalise_label`, nothing else is forgiven."""

from __future__ import annotations

from dataclasses import dataclass

from groundrl.config.registry import register
from groundrl.rewards.base import ScoreContext, TermConfig
from groundrl.rewards.true_answer import read_ok, same_text, true_value
from groundrl.types import Missing, Rollout, Sample, Scored, Task


@dataclass(frozen=True, slots=True, kw_only=True)
class Exact:
    """Case, Unicode form and runs of whitespace do not count; detail: `readable`."""

    tasks = frozenset({Task.text, Task.region_label})
    needs = ()

    def score(self, rollout: Rollout, sample: Sample, context: ScoreContext) -> Scored | Missing:
        truth = true_value(sample)
        if isinstance(truth, Missing):
            return truth
        answer = context.answer
        return Scored(float(same_text(answer.value, truth)), read_ok(answer.status))


@register("reward/term", "exact")
@dataclass(kw_only=True, slots=True)
class ExactConfig(TermConfig):
    """No settings besides `weight`."""

    def build(self) -> Exact:
        return Exact()
