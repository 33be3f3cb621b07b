"""The `eval` group: what is measured on which samples, how often, and which checkpoint is best."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from enum import StrEnum

from groundrl.config.locate import closest
from groundrl.config.registry import register
from groundrl.data.base import DatasetConfig
from groundrl.data.rows import OnError
from groundrl.errors import ConfigError
from groundrl.prompting.prompt import PromptConfig
from groundrl.rollout.verify_loop import VerifyConfig
from groundrl.tracking.base import HELD_OUT


class Measure(StrEnum):
    """What is measured beside the metrics of the task.

    plain       nothing
    per_source  AP of each source of the samples, and the mean over sources (ODinW's average)
    ovdeval     NMS-AP of each sub-set, the means of the aspects, and over them (OVDEval)
    """

    plain = "plain"
    per_source = "per_source"
    ovdeval = "ovdeval"


@register("eval/benchmark", "benchmark")
@dataclass(kw_only=True, slots=True)
class BenchmarkConfig:
    """A data set that is only evaluated on: all of its held-out split, greedily.

    dataset         where the samples come from
    prompt          how its task is asked where the run is about another task; else the run's prompt asks
    max_new_tokens  token limit of an answer
    samples         the first so many samples (null: all)
    measure         what is measured beside the metrics of the task
    """

    dataset: DatasetConfig = field(default_factory=DatasetConfig)
    prompt: PromptConfig = field(default_factory=PromptConfig)
    max_new_tokens: int = 2048
    samples: int | None = None
    measure: Measure = Measure.plain

    def __post_init__(self) -> None:
        if self.max_new_tokens < 1:
            raise ConfigError("max_new_tokens", "must be >= 1", got=self.max_new_tokens, todo="e.g. 2048")
        if self.samples is not None and self.samples < 1:
            raise ConfigError("samples", "must be >= 1 or null", got=self.samples, todo="null: all")


@register("eval", "eval")
@dataclass(kw_only=True, slots=True)
class EvalConfig:
    """Evaluation on the data set's held-out split, and on benchmarks.

    samples         held-out samples before and after training
    every           steps between evaluations during training (0: none)
    every_samples   the first so many of them are used during training
    sampled_k       completions a sample at the training temperature, for sampled/... (0: greedy only)
    batch           samples generated at once
    metric          flat name of the metric by which the best checkpoint is kept
    seed            of the sampled completions and of the bootstrap; not the run's, so that runs compare
    resamples       bootstrap resamples of the 95 % intervals
    benchmarks      by name; evaluated before and after training, and alone by algorithm=eval_only
    only            names of the benchmarks to evaluate (empty: all)
    during          evaluate benchmarks during training too, as often as the held-out split
    verify          the loop in which answers are drawn for verified/..., beside the single pass (null: that
                    of the rollout, if it has one)
    on_missing      what to do with a benchmark whose files are not there: raise, or skip (reported)
    """

    samples: int = 512
    every: int = 50
    every_samples: int = 128
    sampled_k: int = 4
    batch: int = 64
    metric: str = "greedy/iou"
    seed: int = 20
    resamples: int = 1000
    benchmarks: dict[str, BenchmarkConfig] = field(default_factory=dict[str, BenchmarkConfig])
    only: list[str] = field(default_factory=list[str])
    during: bool = False
    verify: VerifyConfig | None = None
    on_missing: OnError = OnError.raise_

    def __post_init__(self) -> None:
        least = {"samples": 1, "every": 0, "every_samples": 1, "batch": 1, "resamples": 100}
        for key, low in least.items():
            if getattr(self, key) < low:
                raise ConfigError(key, f"must be >= {low}", got=getattr(self, key), todo="raise it")
        if self.sampled_k < 0:
            raise ConfigError("sampled_k", "must be >= 0", got=self.sampled_k, todo="use 0 for greedy only")
        for name in self.benchmarks:
            if not re.fullmatch(r"[A-Za-z0-9_-]+", name) or name in HELD_OUT:
                todo = f"use letters, digits, _ and -, and not {', '.join(HELD_OUT)}"
                raise ConfigError("benchmarks", "a name goes into files and metrics", got=name, todo=todo)
        for name in self.only:
            if name not in self.benchmarks:
                known = ", ".join(self.benchmarks) or "none (choose eval=ovd, rec or qa)"
                todo = f"{closest(name, tuple(self.benchmarks))}benchmarks: {known}"
                raise ConfigError("only", "is no benchmark", got=name, todo=todo)

    def chosen(self) -> dict[str, BenchmarkConfig]:
        """The benchmarks to evaluate, by name."""
        return {name: one for name, one in self.benchmarks.items() if not self.only or name in self.only}
