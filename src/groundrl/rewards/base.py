"""The reward interface: one term, what it may look at, and the Config it is made from.

A term never raises on model output. It returns `Scored` or, when the value cannot be known (a judge that
did not answer), `Missing`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol

from groundrl.errors import ConfigError
from groundrl.parsing.answer import Answer
from groundrl.types import Missing, Rollout, Sample, Scored, Task


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoreContext:
    """What a term may know besides the rollout and the sample.

    answer     the rollout's parsed answer, boxes in original pixels: the same object evaluation reads
    progress   training progress in [0, 1]; 0 in evaluation before training, 1 after
    values     the terms of this rollout that this one needs, by name
    verdicts   what an asynchronous judging stage collected for this rollout, by judge; absent: not asked,
               None: asked and not answered
    """

    answer: Answer
    progress: float = 0.0
    values: Mapping[str, Scored | Missing] = field(default_factory=dict[str, Scored | Missing])
    verdicts: Mapping[str, float | None] = field(default_factory=dict[str, "float | None"])


class Compat(StrEnum):
    """Whose definition a published term follows where the two differ.

    paper          the paper, or common sense where it is silent
    released_code  the authors' released functions, their defects included; for comparison only
    """

    paper = "paper"
    released_code = "released_code"


class Term(Protocol):
    """One reward term: a pure function of its arguments that can be pickled.

    `tasks` are the sample tasks it covers; on others it is not called. `needs` names the terms, by their key
    in the rubric, whose values it reads from the context; the rubric scores those first. A penalty, which
    silence escapes too, says so with `pays_truth = False`; of any other term the run checks at the start
    that the truth earns more than silence.
    """

    @property
    def tasks(self) -> frozenset[Task]: ...

    @property
    def needs(self) -> tuple[str, ...]: ...

    def score(self, rollout: Rollout, sample: Sample, context: ScoreContext) -> Scored | Missing: ...


@dataclass(kw_only=True, slots=True)
class TermConfig:
    """Settings every term has. `weight` multiplies the term's value in the total."""

    weight: float = 1.0

    def __post_init__(self) -> None:
        if not -1e6 < self.weight < 1e6:
            raise ConfigError("weight", "must be a finite number", got=self.weight, todo="use e.g. 1.0")

    def build(self) -> Term:
        raise ConfigError("", "this term has no build()", todo="register a Config that overrides build")
