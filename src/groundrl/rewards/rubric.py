"""The rubric: named, weighted terms that together make a rollout's reward."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar

from groundrl.config.registry import register
from groundrl.errors import ConfigError, UserError
from groundrl.parsing.answer import Answer, parse_rollout
from groundrl.parsing.config import ParsingConfig
from groundrl.rewards.base import ScoreContext, Term, TermConfig
from groundrl.rewards.graded import Graded
from groundrl.rewards.grading import GradingConfig
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


Pair = tuple[Rollout, Sample]
Verdicts = Mapping[str, float | None] | None
"""What a judging stage collected for a rollout, by judge."""


BLOCK = 64
"""Rollouts that are parsed before they are scored."""


class TermError(UserError):
    """A reward term gave something that is no reward."""

    def __init__(self, name: str, sample: Sample, problem: str) -> None:
        super().__init__(f"reward term {name!r} {problem} (sample {sample.id}); correct the term")


class Rubric:
    """Scores rollouts. Which terms apply to a sample is decided by its task alone."""

    def __init__(
        self,
        terms: Mapping[str, Term],
        weights: Mapping[str, float],
        *,
        task: Task,
        parsing: ParsingConfig | None = None,
    ) -> None:
        """`task` is what the rubric was written for: a term must cover it. Raises ConfigError."""
        if not terms:
            raise ConfigError("terms", "a rubric needs at least one term", todo="choose a reward option")
        if all(weights[name] == 0 for name in terms):
            raise ConfigError("terms", "all weights are zero", got=dict(weights), todo="give one a weight")
        self._terms = dict(terms)
        self.weights = dict(weights)
        self._order = _order(terms)
        self._covering = {
            task: tuple(name for name in self._order if task in terms[name].tasks) for task in Task
        }
        self._parsing = parsing or ParsingConfig()
        self.task = task
        self.check_tasks([task])

    @property
    def names(self) -> tuple[str, ...]:
        """Names of all terms, in the order in which they are scored."""
        return tuple(self._order)

    def covering(self, task: Task) -> tuple[str, ...]:
        """Names of the terms that score samples of `task`, in order of scoring."""
        return self._covering.get(task, ())

    def paying(self, task: Task) -> tuple[str, ...]:
        """Names of the terms by which the truth of a sample of `task` must earn more than silence does."""
        return tuple(
            name
            for name in self.covering(task)
            if self.weights[name] > 0 and getattr(self._terms[name], "pays_truth", True)
        )

    def check_tasks(self, tasks: Iterable[Task]) -> None:
        """Raise ConfigError if samples of one of `tasks` would get no reward from any weighted term."""
        for task in tasks:
            if not any(self.weights[name] for name in self.covering(task)):
                covered = "; ".join(
                    f"{name} (weight {self.weights[name]:g}) covers {_listed(term.tasks)}"
                    for name, term in self._terms.items()
                )
                problem = f"no term with a weight covers task {task.value!r}"
                raise ConfigError("terms", problem, todo=f"add one, or change the dataset; {covered}")

    def scores(self, task: Task) -> bool:
        """Whether this rubric is about `task`: the one it was written for, or one that a weighted term covers
        which does not cover all tasks (a format reward alone says nothing about an answer)."""
        return task is self.task or any(
            self.weights[name] and self._terms[name].tasks < frozenset(Task) for name in self.covering(task)
        )

    def read(self, rollout: Rollout, sample: Sample) -> Graded:
        """The rollout parsed and not scored: for evaluating on tasks that this rubric is not about."""
        answer = self.parse(rollout, sample)
        empty = RewardBreakdown(
            task=sample.task, terms={}, weights={}, total=None, parse_status=answer.status
        )
        return Graded(sample=sample, rollout=rollout, answer=answer, breakdown=empty)

    def parse(self, rollout: Rollout, sample: Sample) -> Answer:
        """What the rollout said, under this rubric's parsing options."""
        return parse_rollout(rollout, sample, self._parsing)

    def grade_all(
        self,
        pairs: Sequence[Pair],
        *,
        progress: float = 0.0,
        verdicts: Sequence[Verdicts] | None = None,
    ) -> list[Graded]:
        """Parse each rollout once and score every term that covers its sample's task, in order.

        A term of weight 0 is computed and reported without effect. If a term with a weight is missing, the
        total is None. `verdicts` holds one entry a pair. Raises ConfigError if no term covers a task
        (`check_tasks` says so at the start).

        Blocks are parsed, then each term scores the block: alternating between the two for every rollout
        costs a fifth more.
        """
        given = verdicts if verdicts is not None else [None] * len(pairs)
        if uncovered := {sample.task for _, sample in pairs if not self._covering[sample.task]}:
            self.check_tasks(sorted(uncovered))
        graded: list[Graded] = []
        for start in range(0, len(pairs), BLOCK):
            stop = start + BLOCK
            graded += self._grade_block(pairs[start:stop], progress, given[start:stop])
        return graded

    def _grade_block(
        self, pairs: Sequence[Pair], progress: float, verdicts: Sequence[Verdicts]
    ) -> list[Graded]:
        answers = [self.parse(rollout, sample) for rollout, sample in pairs]
        contexts = [
            ScoreContext(answer=answer, progress=progress, verdicts=own or {})
            for answer, own in zip(answers, verdicts, strict=True)
        ]
        found: list[dict[str, Scored | Missing]] = [{} for _ in pairs]
        for name in self._order:
            term = self._terms[name]
            tasks, needs = term.tasks, term.needs
            for (rollout, sample), context, values in zip(pairs, contexts, found, strict=True):
                if sample.task in tasks:
                    if needs:
                        context = replace(context, values={need: values[need] for need in needs})
                    values[name] = term.score(rollout, sample, context)
        graded: list[Graded] = []
        for (rollout, sample), answer, values in zip(pairs, answers, found, strict=True):
            breakdown = self._weighed(sample, answer, values)
            graded.append(Graded(sample=sample, rollout=rollout, answer=answer, breakdown=breakdown))
        return graded

    def grade(
        self, rollout: Rollout, sample: Sample, *, progress: float = 0.0, verdicts: Verdicts = None
    ) -> Graded:
        """`grade_all` of one rollout."""
        return self.grade_all([(rollout, sample)], progress=progress, verdicts=[verdicts])[0]

    def score(
        self, rollout: Rollout, sample: Sample, *, progress: float = 0.0, verdicts: Verdicts = None
    ) -> RewardBreakdown:
        """The breakdown of `grade` alone."""
        return self.grade(rollout, sample, progress=progress, verdicts=verdicts).breakdown

    def _weighed(
        self, sample: Sample, answer: Answer, values: dict[str, Scored | Missing]
    ) -> RewardBreakdown:
        """The breakdown of one rollout's values."""
        total: float | None = 0.0
        weights: dict[str, float] = {}
        for name, value in values.items():
            weight = weights[name] = self.weights[name]
            if isinstance(value, Scored):
                if not math.isfinite(value.value):
                    raise TermError(name, sample, f"gave {value.value}, which is not a finite number")
                total = None if total is None else total + weight * value.value
            elif weight:
                total = None
        return RewardBreakdown(
            task=sample.task, terms=values, weights=weights, total=total, parse_status=answer.status
        )


@register("reward", "rubric")
@dataclass(kw_only=True, slots=True)
class RubricConfig:
    """Named terms and how their answers are read.

    terms    by name, each with its settings and weight
    task     what the rubric is written for
    parsing  how answers are read, by rewards and by evaluation
    grading  in this process or in workers
    """

    by_task: ClassVar[bool] = False
    """Whether the sample's task chooses the term, so that a term without samples is no mistake."""

    terms: dict[str, TermConfig] = field(default_factory=dict[str, TermConfig])
    task: Task = Task.rec
    parsing: ParsingConfig = field(default_factory=ParsingConfig)
    grading: GradingConfig = field(default_factory=GradingConfig)

    def build(self) -> Rubric:
        """Raises ConfigError, its key relative to the rubric, on terms that cannot work together."""
        terms: dict[str, Term] = {}
        for name, config in self.terms.items():
            try:
                terms[name] = config.build()
            except ConfigError as error:
                raise error.at(f"terms.{name}") from error
        weights = {name: config.weight for name, config in self.terms.items()}
        return Rubric(terms, weights, task=self.task, parsing=self.parsing)


@register("reward", "by_task")
@dataclass(kw_only=True, slots=True)
class ByTaskRubricConfig(RubricConfig):
    """A rubric for mixed questions: each sample is scored by the terms of its own task."""

    by_task: ClassVar[bool] = True
