"""The `eval` group: what is measured on held-out samples, how often, and which checkpoint is best."""

from __future__ import annotations

from dataclasses import dataclass

from groundrl.config.registry import register
from groundrl.errors import ConfigError


@register("eval", "heldout")
@dataclass(kw_only=True, slots=True)
class EvalConfig:
    """Evaluation on the data set's held-out split.

    samples         held-out samples before and after training
    every           steps between evaluations during training (0: none)
    every_samples   the first so many of them are used during training
    sampled_k       completions a sample at the training temperature, for sampled/... (0: greedy only)
    batch           samples generated at once
    metric          flat name of the metric by which the best checkpoint is kept
    seed            of the sampled completions and of the bootstrap; not the run's, so that runs compare
    resamples       bootstrap resamples of the 95 % intervals
    """

    samples: int = 512
    every: int = 50
    every_samples: int = 128
    sampled_k: int = 4
    batch: int = 64
    metric: str = "greedy/iou"
    seed: int = 20
    resamples: int = 1000

    def __post_init__(self) -> None:
        least = {"samples": 1, "every": 0, "every_samples": 1, "batch": 1, "resamples": 100}
        for key, low in least.items():
            if getattr(self, key) < low:
                raise ConfigError(key, f"must be >= {low}", got=getattr(self, key), todo="raise it")
        if self.sampled_k < 0:
            raise ConfigError("sampled_k", "must be >= 0", got=self.sampled_k, todo="use 0 for greedy only")
