"""How batches are graded: here, or by worker processes with a time limit."""

from __future__ import annotations

from dataclasses import dataclass

from groundrl.errors import ConfigError


@dataclass(kw_only=True, slots=True)
class GradingConfig:
    """workers: processes that grade (0: this one, without a time limit); timeout_s: seconds per rollout."""

    workers: int = 0
    timeout_s: float = 10.0

    def __post_init__(self) -> None:
        if self.workers < 0:
            raise ConfigError("workers", "must be >= 0", got=self.workers, todo="use 0 for no processes")
        if not 0 < self.timeout_s < 1e6:
            problem = "must be a positive number of seconds"
            raise ConfigError("timeout_s", problem, got=self.timeout_s, todo="use e.g. 10")
