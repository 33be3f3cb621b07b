"""Whether an answer is right, for tasks whose truth is no box: the reward terms at their published settings.

A run may weigh or loosen its rewards; what evaluation calls right stays the same, so that runs compare.
"""

from __future__ import annotations

from groundrl.parsing.answer import Answer
from groundrl.rewards.base import ScoreContext, Term
from groundrl.rewards.exact import Exact
from groundrl.rewards.mcq import Mcq
from groundrl.rewards.numeric import Numeric
from groundrl.rewards.point import Point
from groundrl.rewards.yes_no import YesNo
from groundrl.types import Missing, Rollout, Sample, Task

JUDGES: dict[Task, tuple[str, Term]] = {
    Task.mcq: ("accuracy", Mcq()),
    Task.numeric: ("accuracy", Numeric()),
    Task.yes_no: ("accuracy", YesNo()),
    Task.text: ("accuracy", Exact()),
    Task.region_label: ("accuracy", Exact()),
    Task.point: ("point_f1", Point()),
}
"""Metric of each task and what measures it: numbers within 5 % (relaxed accuracy, Masry et al. 2022,
ChartQA), texts after normalisation, points by F1 against the true regions."""


def answer_values(rollout: Rollout, sample: Sample, answer: Answer) -> dict[str, float]:
    """`accuracy` or `point_f1` of one answer; empty for tasks of boxes and where no truth can be read."""
    if sample.task not in JUDGES:
        return {}
    name, term = JUDGES[sample.task]
    scored = term.score(rollout, sample, ScoreContext(answer=answer))
    return {} if isinstance(scored, Missing) else {name: scored.value}
