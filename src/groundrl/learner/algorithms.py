"""The `algorithm` group: what is learned from, how often, and how strongly."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from groundrl.advantages.base import AdvantageConfig
from groundrl.config.registry import register
from groundrl.errors import ConfigError
from groundrl.learner.config import OptimConfig
from groundrl.losses.config import KLConfig, LossConfig
from groundrl.losses.correction_config import CorrectionConfig


@dataclass(kw_only=True, slots=True)
class AlgorithmConfig:
    """Base of the algorithm options."""

    def training_steps(self) -> int:
        """Steps of the loop; 0 for an algorithm that does not train."""
        return 0


def _check_positive(config: object, *keys: str) -> None:
    for key in keys:
        value = getattr(config, key)
        if value < 1:
            raise ConfigError(key, "must be >= 1", got=value, todo="raise it")


def _check_lr(lr: float) -> None:
    if not 0 <= lr < 1:
        raise ConfigError("lr", "must lie in [0, 1)", got=lr, todo="e.g. 1e-6 (paper), 3e-4 (tiny)")


@dataclass(kw_only=True, slots=True)
class DynamicSamplingConfig:
    """DAPO's dynamic sampling (Yu et al. 2025, section 3.2): groups without spread give way to fresh prompts.

    max_rounds: rounds of fresh prompts a step may draw; 0 keeps every group of the first draw
    """

    max_rounds: int = 0

    def __post_init__(self) -> None:
        if self.max_rounds < 0:
            raise ConfigError("max_rounds", "must be >= 0", got=self.max_rounds, todo="use 0 for off")


@register("algorithm", "grpo")
@dataclass(kw_only=True, slots=True)
class GRPOConfig(AlgorithmConfig):
    """Group relative policy optimisation (VLM-R1 paper, section 3).

    num_steps          rollout batches
    prompts_per_step   samples a batch; each is answered group_size times
    num_iterations     passes over a batch (the paper's inner iterations, published: 1)
    mini_batches       optimiser steps a pass
    """

    num_steps: int = 100
    prompts_per_step: int = 8
    group_size: int = 8
    num_iterations: int = 1
    mini_batches: int = 1
    lr: float = 1e-6
    optim: OptimConfig = field(default_factory=OptimConfig)
    advantage: AdvantageConfig = field(default_factory=AdvantageConfig)
    loss: LossConfig = field(default_factory=LossConfig)
    kl: KLConfig = field(default_factory=KLConfig)
    correction: CorrectionConfig = field(default_factory=CorrectionConfig)
    dynamic_sampling: DynamicSamplingConfig = field(default_factory=DynamicSamplingConfig)

    def __post_init__(self) -> None:
        _check_positive(self, "num_steps", "prompts_per_step", "num_iterations", "mini_batches")
        _check_lr(self.lr)
        if self.group_size < 2:
            raise ConfigError(
                "group_size",
                "a group of one has no baseline, so every advantage would be 0",
                got=self.group_size,
                todo="use at least 2 (paper: 8)",
            )
        rows = self.prompts_per_step * self.group_size
        if self.mini_batches > rows:
            raise ConfigError(
                "mini_batches",
                f"a batch has only {rows} rollouts",
                got=self.mini_batches,
                todo="lower it or raise prompts_per_step",
            )

    def training_steps(self) -> int:
        return self.num_steps


class ThinkBlock(StrEnum):
    """What a supervised target holds before its answer; VLM-R1 does not say what its own did.

    none      nothing: the answer alone
    empty     an empty think block
    template  a think block with a sentence made of the truth
    """

    none = "none"
    empty = "empty"
    template = "template"


@register("algorithm", "sft")
@dataclass(kw_only=True, slots=True)
class SFTConfig(AlgorithmConfig):
    """Supervised fine-tuning on the truth written as an answer, behind the think block that `think` says.

    Loss: mean over tokens of the batch.
    """

    num_steps: int = 100
    batch_size: int = 64
    lr: float = 1e-6
    think: ThinkBlock = ThinkBlock.empty
    optim: OptimConfig = field(default_factory=OptimConfig)

    def __post_init__(self) -> None:
        _check_positive(self, "num_steps", "batch_size")
        _check_lr(self.lr)

    def training_steps(self) -> int:
        return self.num_steps


@register("algorithm", "eval_only")
@dataclass(kw_only=True, slots=True)
class EvalOnlyConfig(AlgorithmConfig):
    """No training: evaluates the checkpoint once."""
