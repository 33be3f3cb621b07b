"""The rollout engine interface: token ids in, token ids and their log-probs out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from groundrl.errors import ConfigError
from groundrl.types import PreparedImage


@dataclass(frozen=True, slots=True, kw_only=True)
class Sampling:
    """How tokens are drawn.

    temperature      0: the likeliest token; else logits are divided by it
    top_k, top_p     0 and 1: off. Truncation changes what is drawn, not the log-probs that are kept
    max_new_tokens   a completion that reaches it without an end token is truncated
    choices          the completion is one of these texts and an end token, drawn token by token from what
                     is left of them (empty: any text); its log-probs are those of that choice
    """

    temperature: float
    max_new_tokens: int
    top_k: int = 0
    top_p: float = 1.0
    choices: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One context, of which one completion per seed is asked. Image placeholders are expanded."""

    prompt_ids: NDArray[np.int64]
    images: tuple[PreparedImage, ...]
    seeds: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Completion:
    """ids int64 [R], end token included; logprobs float32 [R] at the sampling temperature (at 1 when
    greedy), placeholders excluded from the vocabulary, no truncation; finished: an end token was drawn."""

    ids: NDArray[np.int64]
    logprobs: NDArray[np.float32]
    finished: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Given:
    """A context and tokens that followed it, to be scored. Image placeholders are expanded."""

    prompt_ids: NDArray[np.int64]
    images: tuple[PreparedImage, ...]
    completion_ids: NDArray[np.int64]


class Engine(Protocol):
    """Draws completions from the current policy."""

    def generate(self, requests: Sequence[Request], sampling: Sampling) -> list[list[Completion]]:
        """Completions of each request, in the order of its seeds. A completion depends on its context,
        its seed and the weights, not on what else is in the batch (up to rounding)."""
        ...

    def sync_weights(self, model: Any) -> None:
        """Make the engine sample from `model`'s present weights, adapters included; empties the caches."""
        ...

    def score(self, given: Sequence[Given]) -> list[NDArray[np.float32]]:
        """Log-prob of each completion token, float32 [R], at temperature 1 over the whole vocabulary
        (placeholders included): the engine's own view, to compare with the learner's."""
        ...

    def reset_caches(self) -> None:
        """Forget what was computed with earlier weights or pictures."""
        ...

    def release(self) -> None:
        """Lend the device's memory to the learner until the next call."""
        ...

    def close(self) -> None: ...


@runtime_checkable
class Concurrent(Protocol):
    """What an `Engine` has beside that draws in other processes: `generate` may run in a thread while the
    learner steps, if `concurrent` says so. Weights are pushed by none but an idle engine."""

    @property
    def concurrent(self) -> bool: ...

    def abandon(self) -> None:
        """End the draw that another thread waits for, and every later one: they raise EngineError."""
        ...


@dataclass(kw_only=True, slots=True)
class EngineConfig:
    """Settings every engine has. `max_batch` limits the completions drawn at once.

    scores_untruncated   whether log-probs stay those of the whole distribution under top-k and top-p
    chooses              whether it can be held to `Sampling.choices`
    """

    scores_untruncated: ClassVar[bool] = True
    chooses: ClassVar[bool] = False

    max_batch: int = field(default=256)

    def __post_init__(self) -> None:
        if self.max_batch < 1:
            raise ConfigError("max_batch", "must be at least 1", got=self.max_batch, todo="e.g. 256")

    def copy_parts(self, processes: int) -> int:
        """How many processes a copy of the weights for sampling is spread over; 0 where none is kept."""
        return 0

    def context_limit(self) -> int | None:
        """Most tokens of a prompt and its completion together; None: as many as the model takes."""
        return None

    def build(self, model: Any, processor: Any) -> Engine:
        raise ConfigError("", "this engine has no build()", todo="register a Config that overrides build")
