"""1 where the cleaned answer is the cleaned truth, else 0 (`all_match` of the VLM-R1 release).

Cleaned is: lower case, stripped, without one closing full stop. Unlike `exact`, a closing full stop is
forgiven, while Unicode forms and whitespace inside the text count. Deviation from the released function: the
answer must stand in a proper pair of answer tags.
"""

from __future__ import annotations

from dataclasses import dataclass

from groundrl.config.registry import register
from groundrl.rewards.base import ScoreContext, TermConfig
from groundrl.rewards.true_answer import read_ok, true_value
from groundrl.types import Missing, Rollout, Sample, Scored, Task


def _cleaned(text: str) -> str:
    return text.strip().lower().removesuffix(".").rstrip()


@dataclass(frozen=True, slots=True, kw_only=True)
class AllMatch:
    """detail: `readable`."""

    tasks = frozenset({Task.text, Task.region_label})
    needs = ()

    def score(self, rollout: Rollout, sample: Sample, context: ScoreContext) -> Scored | Missing:
        truth = true_value(sample)
        if isinstance(truth, Missing):
            return truth
        answer = context.answer
        equal = answer.value is not None and _cleaned(answer.value) == _cleaned(truth)
        return Scored(float(equal), read_ok(answer.status))


@register("reward/term", "all_match")
@dataclass(kw_only=True, slots=True)
class AllMatchConfig(TermConfig):
    """No settings besides `weight`."""

    def build(self) -> AllMatch:
        return AllMatch()
