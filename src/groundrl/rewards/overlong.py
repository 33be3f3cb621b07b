"""Soft overlong punishment (Yu et al. 2025, "DAPO", arXiv 2503.14476, section 3.4, eq. 13).

    r = 0                                   if L <= max_length - cache
        (max_length - cache - L) / cache    if max_length - cache < L <= max_length
        -1                                  if L > max_length

L is the number of tokens the policy sampled, over all turns of a conversation; inserted tokens and tool
results do not count. With `max_length` above the limit on sampled tokens the lower part is never reached.
"""

from __future__ import annotations

from dataclasses import dataclass

from groundrl.config.registry import register
from groundrl.errors import ConfigError
from groundrl.rewards.base import ScoreContext, TermConfig
from groundrl.types import Rollout, Sample, Scored, Task


@dataclass(frozen=True, slots=True, kw_only=True)
class Overlong:
    """See the module; lengths in tokens; detail: `tokens`, the length L."""

    tasks = frozenset(Task)
    needs = ()
    pays_truth = False

    max_length: int = 2048
    cache: int = 512

    def score(self, rollout: Rollout, sample: Sample, context: ScoreContext) -> Scored:
        length = rollout.num_student_tokens
        value = (self.max_length - self.cache - length) / self.cache
        return Scored(max(-1.0, min(0.0, value)), {"tokens": float(length)})


@register("reward/term", "overlong")
@dataclass(kw_only=True, slots=True)
class OverlongConfig(TermConfig):
    """`max_length`: tokens at which the value reaches -1; `cache`: over how many tokens it falls to that."""

    max_length: int = 2048
    cache: int = 512

    def __post_init__(self) -> None:
        TermConfig.__post_init__(self)
        if not 0 < self.cache <= self.max_length:
            problem = f"must be > 0 and at most max_length ({self.max_length})"
            raise ConfigError("cache", problem, got=self.cache, todo="use e.g. a quarter of max_length")

    def build(self) -> Overlong:
        return Overlong(max_length=self.max_length, cache=self.cache)
