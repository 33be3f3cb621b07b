"""`rollout=reflect_prompt`: one answer, asked for with a request to check it first.

The baseline of self-verification (SVR-R1): the policy may reflect inside its answer, and no loop makes it.
"""

from __future__ import annotations

from dataclasses import dataclass

from groundrl.config.registry import register
from groundrl.errors import ConfigError
from groundrl.models.processor import Processor
from groundrl.rollout.config import RolloutConfig
from groundrl.rollout.single_turn import SingleTurn


@register("rollout", "reflect_prompt")
@dataclass(kw_only=True, slots=True)
class ReflectPromptConfig(RolloutConfig):
    """Settings of single-turn rollouts with `reflection` behind every question, benchmarks' too."""

    reflection: str = "Before you answer, check your answer against the image, and correct it if it is wrong."

    def __post_init__(self) -> None:
        RolloutConfig.__post_init__(self)
        if not self.reflection.strip():
            todo = "write it, or use rollout=single_turn"
            raise ConfigError("reflection", "must not be empty", got=self.reflection, todo=todo)

    def instruction(self) -> str:
        return self.reflection

    def build_kind(self, processor: Processor) -> SingleTurn:
        return SingleTurn()
