"""Cosine length reward: what a completion earns for its length (VLM-R1 blog of 2025-03-24, section 4).

    r(L) = start - (start - end) * (1 - cos(pi * L / L_max)) / 2

L counts the tokens the policy sampled, over all turns: the sampled ids themselves, never a new tokenisation
of the text. r runs from `start` at L = 0 to `end` at L_max and stays there. Right answers go from 1.0 down to
0.5 (shorter is better), wrong ones from -0.5 up to 0.0 (a wrong answer may think longer); any four numbers
will do. An answer is right where another term of the same rubric is worth at least `threshold`.

The term has to know its tasks before it sees the other one, so they are a setting; the rubric refuses tasks
that the other term does not cover.

Deviations of `paper` from the released code, both of which `released_code` takes back: there every answer is
taken for a right one, because the accuracy is overwritten (VLM-R1 #247, #296), and L is not bounded, so that
r rises again beyond L_max. The released code also tokenises the text anew; here neither form does.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from groundrl.config.registry import register
from groundrl.errors import ConfigError
from groundrl.rewards.base import Compat, ScoreContext, TermConfig
from groundrl.types import Missing, Rollout, Sample, Scored, Task


@dataclass(frozen=True, slots=True, kw_only=True)
class Cosine:
    """detail: `tokens` (L) and `right` (0 or 1). Missing where the term it needs is missing."""

    tasks: frozenset[Task] = frozenset({Task.ovd})
    needs: tuple[str, ...] = ("weighted_sum",)

    threshold: float = 0.7
    right_start: float = 1.0
    right_end: float = 0.5
    wrong_start: float = -0.5
    wrong_end: float = 0.0
    max_length: int = 1024
    compat: Compat = Compat.paper

    def score(self, rollout: Rollout, sample: Sample, context: ScoreContext) -> Scored | Missing:
        other = context.values[self.needs[0]]
        if isinstance(other, Missing):
            return other
        right = other.value >= self.threshold
        tokens = rollout.num_student_tokens
        length, start, end = float(tokens), self.right_start, self.right_end
        if self.compat is Compat.paper:
            length = float(min(tokens, self.max_length))
            if not right:
                start, end = self.wrong_start, self.wrong_end
        share = (1 - math.cos(math.pi * length / self.max_length)) / 2
        return Scored(start - (start - end) * share, {"tokens": float(tokens), "right": float(right)})


@register("reward/term", "cosine")
@dataclass(kw_only=True, slots=True)
class CosineConfig(TermConfig):
    """of           the term, by its name in the rubric, that says whether the answer is right
    threshold    its value from which on it is
    right_start  reward of a right answer of no tokens; `right_end`: of one of `max_length` or more
    wrong_start  the same of a wrong answer; `wrong_end`; with `released_code` no answer is wrong
    max_length   L_max, in sampled tokens
    tasks        tasks of the samples it scores; `of` must cover them
    compat       `released_code`: always the right answer's curve, which goes on beyond `max_length`
    """

    of: str = "weighted_sum"
    threshold: float = 0.7
    right_start: float = 1.0
    right_end: float = 0.5
    wrong_start: float = -0.5
    wrong_end: float = 0.0
    max_length: int = 1024
    tasks: list[Task] = field(default_factory=lambda: [Task.ovd])
    compat: Compat = Compat.paper

    def __post_init__(self) -> None:
        TermConfig.__post_init__(self)
        if not self.of:
            raise ConfigError("of", "must name a term of the rubric", todo="e.g. weighted_sum")
        numbers = {
            "threshold": self.threshold,
            "right_start": self.right_start,
            "right_end": self.right_end,
            "wrong_start": self.wrong_start,
            "wrong_end": self.wrong_end,
        }
        for name, number in numbers.items():
            if not -1e6 < number < 1e6:
                raise ConfigError(name, "must be a finite number", got=number, todo="use e.g. 0.5")
        if self.compat is Compat.released_code and (self.wrong_start, self.wrong_end) != (-0.5, 0.0):
            problem = "has no meaning with compat=released_code, nor has wrong_end"
            raise ConfigError("wrong_start", problem, todo="leave them -0.5 and 0.0")
        if self.max_length < 1:
            raise ConfigError("max_length", "must be >= 1 token", got=self.max_length, todo="e.g. 1024")
        if not self.tasks:
            raise ConfigError("tasks", "must name at least one task", todo="use e.g. [ovd]")

    def build(self) -> Cosine:
        return Cosine(
            tasks=frozenset(self.tasks),
            needs=(self.of,),
            threshold=self.threshold,
            right_start=self.right_start,
            right_end=self.right_end,
            wrong_start=self.wrong_start,
            wrong_end=self.wrong_end,
            max_length=self.max_length,
            compat=self.compat,
        )
