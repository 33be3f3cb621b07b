"""Settings of rollouts: how many tokens, drawn how, by which engine."""

from __future__ import annotations

from dataclasses import dataclass, field

from groundrl.errors import ConfigError
from groundrl.models.processor import Processor
from groundrl.rollout.engines.base import EngineConfig, Sampling
from groundrl.rollout.episode import RolloutKind
from groundrl.rollout.verify_loop import VerifyConfig


@dataclass(kw_only=True, slots=True)
class RolloutConfig:
    """Settings every kind of rollout has.

    temperature      > 0; the learner's log-probs are taken at the same one
    top_k, top_p     0 and 1 are off. Published for VLM-R1: top-k 50 (its library's default), drawn
                     truncated and scored untruncated, as here
    max_new_tokens   per turn
    max_lag          so many later batches are drawn before the present one is learned from, the last of them
                     while the learner steps where the engine is a server; 0: each is drawn with the present
                     weights (training/ahead.py)
    """

    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    max_new_tokens: int = 64
    max_lag: int = 0
    engine: EngineConfig = field(default_factory=EngineConfig)

    def __post_init__(self) -> None:
        if not 0 < self.temperature <= 10:
            raise ConfigError(
                "temperature", "must lie in (0, 10]", got=self.temperature, todo="use e.g. 1.0 (paper: 0.9)"
            )
        if self.top_k < 0:
            raise ConfigError("top_k", "must be >= 0", got=self.top_k, todo="use 0 for off")
        if not 0 < self.top_p <= 1:
            raise ConfigError("top_p", "must lie in (0, 1]", got=self.top_p, todo="use 1.0 for off")
        if not self.engine.scores_untruncated and (self.top_k > 0 or self.top_p < 1):
            raise ConfigError(
                "top_k" if self.top_k > 0 else "top_p",
                "this engine gives log-probs of the truncated distribution, and the learner scores the whole",
                got=self.top_k if self.top_k > 0 else self.top_p,
                todo="use top_k=0 top_p=1, or rollout/engine=hf",
            )
        if self.max_new_tokens < 1:
            raise ConfigError("max_new_tokens", "must be >= 1", got=self.max_new_tokens, todo="e.g. 64")
        if self.max_lag < 0:
            raise ConfigError("max_lag", "must be >= 0", got=self.max_lag, todo="use 0 for synchronous")

    def sampling(self) -> Sampling:
        """How training rollouts are drawn."""
        return Sampling(
            temperature=self.temperature,
            top_k=self.top_k,
            top_p=self.top_p,
            max_new_tokens=self.max_new_tokens,
        )

    def instruction(self) -> str:
        """What is asked behind every question."""
        return ""

    def build_kind(self, processor: Processor) -> RolloutKind:
        """The hooks of training rollouts."""
        raise ConfigError("", "this rollout has no build_kind()", todo="register a Config that overrides it")

    def build_eval_kind(self, processor: Processor) -> RolloutKind:
        """The hooks of evaluation's rollouts."""
        return self.build_kind(processor)

    def loop(self) -> VerifyConfig | None:
        """The verification loop that training runs, if it does."""
        return None
