"""Settings of the optimiser, shared by every algorithm that learns."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from groundrl.errors import ConfigError


class Decay(StrEnum):
    constant = "constant"
    linear = "linear"
    cosine = "cosine"


class SharedPrefix(StrEnum):
    """auto: rows with the same prompt compute it once, where the model allows it. off: padded rows."""

    auto = "auto"
    off = "off"


@dataclass(kw_only=True, slots=True)
class OptimConfig:
    """AdamW, its schedule and its guards.

    warmup_steps     optimiser batches over which lr rises from 0
    decay            of lr from lr to 0 over num_steps
    betas            AdamW's
    max_grad_norm    gradients are scaled down to this norm
    micro_batch      rows per forward pass; changes memory and speed, not results
    micro_tokens     tokens per forward pass instead, a shared prompt counted once (null: by micro_batch)
    shared_prefix    whether a prompt is computed once for all completions that share it
    max_nonfinite    a step whose loss or gradient is not finite is skipped and counted; so many skipped
                     in a row end the run
    """

    warmup_steps: int = 0
    decay: Decay = Decay.linear
    betas: list[float] = field(default_factory=lambda: [0.9, 0.95])
    weight_decay: float = 0.0
    max_grad_norm: float = 1.0
    micro_batch: int = 64
    micro_tokens: int | None = None
    shared_prefix: SharedPrefix = SharedPrefix.auto
    max_nonfinite: int = 3

    def __post_init__(self) -> None:
        if self.warmup_steps < 0:
            raise ConfigError("warmup_steps", "must be >= 0", got=self.warmup_steps, todo="use 0 for none")
        if len(self.betas) != 2 or not all(0 <= beta < 1 for beta in self.betas):
            raise ConfigError(
                "betas", "must be two numbers in [0, 1)", got=list(self.betas), todo="use [0.9, 0.95]"
            )
        if self.weight_decay < 0:
            raise ConfigError("weight_decay", "must be >= 0", got=self.weight_decay, todo="use 0")
        if not self.max_grad_norm > 0:
            raise ConfigError("max_grad_norm", "must be > 0", got=self.max_grad_norm, todo="use 1.0")
        if self.micro_tokens is not None and self.micro_tokens < 1:
            raise ConfigError(
                "micro_tokens", "must be >= 1 or null", got=self.micro_tokens, todo="use null or e.g. 8192"
            )
        for key in ("micro_batch", "max_nonfinite"):
            if getattr(self, key) < 1:
                raise ConfigError(key, "must be >= 1", got=getattr(self, key), todo="raise it")
