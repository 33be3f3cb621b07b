"""The rubric: named, weighted terms that together make a rollout's reward."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from groundrl.config.registry import register
from groundrl.errors import ConfigError
from groundrl.parsing.answer import parse_rollout
from groundrl.rewards.base import ScoreContext, Term, TermConfig
from groundrl.types import Missing, RewardBreakdown, Rollout, Sample, Scored, Task


def _listed(names: Iterable[str]) -> str:
    return ", ".join(sorted(names)) or "none"


def _order(terms: Mapping[str, Term]) -> list[str]:
    """Names so that each stands after those it needs, otherwise in the order given.

    Raises ConfigError on a need that names no term or one of fewer tasks, and on a cycle.
    """
    for name, term in terms.items():
        for need in term.needs:
            if need not in terms:
                problem = f"needs a term {need!r} that this rubric does not have"
                raise ConfigError(f"terms.{name}", problem, todo=f"terms are: {_listed(terms)}")
            if uncovered := term.tasks - terms[need].tasks:
                problem = f"needs {need!r}, which does not cover {_listed(uncovered)}"
                raise ConfigError(f"terms.{name}", problem, todo="name a term that covers the same tasks")
    order: list[str] = []
    waiting = list(terms)
    while waiting:
        ready = [name for name in waiting if all(need in order for need in terms[name].needs)]
        if not ready:
            raise ConfigError("terms", "terms need each other in a cycle", got=sorted(waiting))
        order.append(ready[0])
        waiting.remove(ready[0])
    return order


class Rubric:
    """Scores rollouts. Which terms apply to a sample is decided by its task alone."""

    def __init__(self, terms: Mapping[str, Term], weights: Mapping[str, float], *, task: Task) -> None:
        """`task` is what the rubric was written for: a term must cover it. Raises ConfigError."""
        if not terms:
            raise ConfigError("terms", "a rubric needs at least one term", todo="choose a reward option")
        if all(weights[name] == 0 for name in terms):
            raise ConfigError("terms", "all weights are zero", got=dict(weights), todo="give one a weight")
        self._terms = dict(terms)
        self._weights = dict(weights)
        self._order = _order(terms)
        self.task = task
        self.check_tasks([task])

    @property
    def names(self) -> tuple[str, ...]:
        """Names of all terms, in the order in which they are scored."""
        return tuple(self._order)

    def covering(self, task: Task) -> tuple[str, ...]:
        """Names of the terms that score samples of `task`, in order of scoring."""
        return tuple(name for name in self._order if task in self._terms[name].tasks)

    def check_tasks(self, tasks: Iterable[Task]) -> None:
        """Raise ConfigError if samples of one of `tasks` would get no reward from any weighted term."""
        for task in tasks:
            if not any(self._weights[name] for name in self.covering(task)):
                covered = "; ".join(
                    f"{name} (weight {self._weights[name]:g}) covers {_listed(term.tasks)}"
                    for name, term in self._terms.items()
                )
                problem = f"no term with a weight covers task {task.value!r}"
                raise ConfigError("terms", problem, todo=f"add one, or change the dataset; {covered}")

    def score(
        self,
        rollout: Rollout,
        sample: Sample,
        *,
        progress: float = 0.0,
        verdicts: Mapping[str, float | None] | None = None,
    ) -> RewardBreakdown:
        """Parse the rollout once and score every term that covers the sample's task.

        A term of weight 0 is computed and reported without effect. If a term with a weight is missing, the
        total is None. Raises ConfigError if no term covers the task (`check_tasks` says so at the start).
        """
        names = self.covering(sample.task)
        if not names:
            self.check_tasks([sample.task])
        answer = parse_rollout(rollout, sample)
        values: dict[str, Scored | Missing] = {}
        total: float | None = 0.0
        for name in names:
            context = ScoreContext(
                answer=answer, progress=progress, values=dict(values), verdicts=dict(verdicts or {})
            )
            value = self._terms[name].score(rollout, sample, context)
            values[name] = value
            weight = self._weights[name]
            if isinstance(value, Scored):
                assert math.isfinite(value.value), f"term {name} gave {value.value} on sample {sample.id}"
                total = None if total is None else total + weight * value.value
            elif weight:
                total = None
        return RewardBreakdown(
            task=sample.task,
            terms=values,
            weights={name: self._weights[name] for name in names},
            total=total,
            parse_status=answer.status.value,
        )


@register("reward", "rubric")
@dataclass(kw_only=True, slots=True)
class RubricConfig:
    """`terms` by name, each with its settings and weight; `task`: what the rubric is written for."""

    terms: dict[str, TermConfig] = field(default_factory=dict[str, TermConfig])
    task: Task = Task.rec

    def build(self) -> Rubric:
        """Raises ConfigError, its key relative to the rubric, on terms that cannot work together."""
        terms: dict[str, Term] = {}
        for name, config in self.terms.items():
            try:
                terms[name] = config.build()
            except ConfigError as error:
                raise error.at(f"terms.{name}") from error
        return Rubric(terms, {name: config.weight for name, config in self.terms.items()}, task=self.task)
