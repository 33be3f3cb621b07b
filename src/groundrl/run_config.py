"""`RunConfig`: everything that decides a run, typed. No `DictConfig` travels past `train.py`."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from groundrl.config.invocation import Invocation
from groundrl.config.registry import register, register_root
from groundrl.data.base import DatasetConfig
from groundrl.errors import ConfigError
from groundrl.evaluation.config import EvalConfig
from groundrl.learner.algorithms import AlgorithmConfig
from groundrl.models.config import Attention, ModelConfig, Precision
from groundrl.prompting.prompt import PromptConfig
from groundrl.rewards.rubric import RubricConfig
from groundrl.rollout.config import RolloutConfig
from groundrl.rollout.verify_loop import VerifyConfig
from groundrl.tracking.config import TrackerConfig
from groundrl.types import Task


@register("task", "task")
@dataclass(kw_only=True, slots=True)
class TaskConfig:
    """The task that the chosen reward declares; data set, prompt and scale values follow it.

    recipe: the block of the scale (rec, ovd or answer) whose values its runs take
    tiny: the line of shipped tiny checkpoints (rec or ovd) that its runs begin with
    """

    name: Task = Task.rec
    recipe: str = "rec"
    tiny: str = "rec"


@dataclass(kw_only=True, slots=True)
class TaskScale:
    """Values that depend on the model's scale and the task; other options refer to them."""

    lr: float = 1e-6
    sft_lr: float = 1e-6
    num_steps: int = 600
    prompts_per_step: int = 16
    group_size: int = 8
    sft_batch: int = 128
    temperature: float = 0.9
    max_new_tokens: int = 2048
    beta: float = 0.0
    format_weight: float = 1.0
    best_metric: str = "greedy/iou"
    image_size: int = 448
    objects: list[int] = field(default_factory=lambda: [1, 4])
    object_size: list[int] = field(default_factory=lambda: [56, 224])
    grid: int = 1


@register("scale", "scale")
@dataclass(kw_only=True, slots=True)
class ScaleConfig:
    """One scale. `threads`: CPU threads of the process (null: leave the libraries' choice); rec, ovd, answer:
    values by the task's recipe."""

    precision: Precision = Precision.bfloat16
    attention: Attention = Attention.flash_attention_2
    max_pixels: int = 12845056
    gradient_checkpointing: bool = True
    micro_batch: int = 4
    engine_batch: int = 64
    eval_samples: int = 2000
    eval_every: int = 100
    eval_every_samples: int = 500
    eval_sampled_k: int = 0
    eval_batch: int = 32
    checkpoint_every: int = 100
    cosine_length: int = 1024
    threads: int | None = None
    rec: TaskScale = field(default_factory=TaskScale)
    ovd: TaskScale = field(default_factory=TaskScale)
    answer: TaskScale = field(default_factory=TaskScale)


@register("checkpoint", "keep")
@dataclass(kw_only=True, slots=True)
class CheckpointConfig:
    """every: steps between checkpoints (the last step is always saved); keep_last: newest ones kept, the
    best one apart."""

    every: int = 50
    keep_last: int = 2

    def __post_init__(self) -> None:
        for key in ("every", "keep_last"):
            if getattr(self, key) < 1:
                raise ConfigError(key, "must be >= 1", got=getattr(self, key), todo="raise it")


@register("paths", "paths")
@dataclass(kw_only=True, slots=True)
class PathsConfig:
    """root: folder under which run folders are named after their settings; output_dir: the run folder
    itself, when it is to be this one; data: folder that the benchmarks of eval=ovd, rec and qa lie in."""

    root: str = "outputs"
    data: str = "data"
    output_dir: str | None = None


class DebugMode(StrEnum):
    """none: run. plan: build the architecture without weights, print names and memory, and stop."""

    none = "none"
    plan = "plan"


@register("debug", "mode")
@dataclass(kw_only=True, slots=True)
class DebugConfig:
    """mode as above; plan_ranks: processes that `plan` shards over."""

    mode: DebugMode = DebugMode.none
    plan_ranks: int = 8

    def __post_init__(self) -> None:
        if self.plan_ranks < 1:
            raise ConfigError("plan_ranks", "must be >= 1", got=self.plan_ranks, todo="use 8")


@register_root("run_schema")
@dataclass(kw_only=True, slots=True)
class RunConfig:
    """The whole run. `resume`: a run folder to continue; its own settings are used."""

    seed: int = 0
    resume: str | None = None
    threads: int | None = None
    task: TaskConfig = field(default_factory=TaskConfig)
    scale: ScaleConfig = field(default_factory=ScaleConfig)
    model: ModelConfig = field(default_factory=ModelConfig)
    dataset: DatasetConfig = field(default_factory=DatasetConfig)
    prompt: PromptConfig = field(default_factory=PromptConfig)
    reward: RubricConfig = field(default_factory=RubricConfig)
    rollout: RolloutConfig = field(default_factory=RolloutConfig)
    algorithm: AlgorithmConfig = field(default_factory=AlgorithmConfig)
    eval: EvalConfig = field(default_factory=EvalConfig)
    tracker: TrackerConfig = field(default_factory=TrackerConfig)
    checkpoint: CheckpointConfig = field(default_factory=CheckpointConfig)
    paths: PathsConfig = field(default_factory=PathsConfig)
    debug: DebugConfig = field(default_factory=DebugConfig)

    def __post_init__(self) -> None:
        if not 0 <= self.seed < 2**31:
            raise ConfigError("seed", "must lie in [0, 2^31)", got=self.seed, todo="use 0, 1, 2, ...")
        if self.threads is not None and self.threads < 1:
            raise ConfigError("threads", "must be >= 1 or null", got=self.threads, todo="use 1 at tiny scale")

    def loop(self) -> VerifyConfig | None:
        """The loop in which evaluation verifies answers: its own, or that of the rollout."""
        return self.eval.verify or self.rollout.loop()

    def check(self, invocation: Invocation) -> None:
        """Raise ConfigError when settings of different groups do not go together."""
        from groundrl.run_checks import check_run

        check_run(self, invocation)
