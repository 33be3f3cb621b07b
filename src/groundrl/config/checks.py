"""Rules that hold between groups; each refuses a combination that would be ignored or cannot work."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from groundrl.config.invocation import Invocation
from groundrl.errors import ConfigError
from groundrl.types import Task

if TYPE_CHECKING:
    from groundrl.run_config import RunConfig


def check(config: RunConfig, invocation: Invocation) -> None:
    """Raise ConfigError on the first rule that is broken."""
    _resume(config, invocation)
    _metric(config)
    for key, why in _ignored(config):
        for word in invocation.overrides:
            name, _, value = word.lstrip("+~").partition("=")
            if name == key or name.startswith(f"{key}."):
                raise ConfigError(name, f"would be ignored: {why}", got=value, todo="remove it")


def _resume(config: RunConfig, invocation: Invocation) -> None:
    if config.resume is None:
        return
    others = [word for word in invocation.overrides if not word.startswith("resume=")]
    if others:
        raise ConfigError(
            "resume",
            "a resumed run keeps its own settings, so this word would be ignored",
            got=others[0],
            todo="remove it; to go on with other settings start a run with model.init_from=RUN_DIR/best",
        )


def _metric(config: RunConfig) -> None:
    name = config.eval.metric
    prefix, _, leaf = name.partition("/")
    if prefix not in ("greedy", "sampled") or not leaf:
        raise ConfigError(
            "eval.metric", "must be greedy/NAME or sampled/NAME", got=name, todo="e.g. greedy/iou"
        )
    if prefix == "sampled" and config.eval.sampled_k == 0:
        raise ConfigError(
            "eval.metric", "eval.sampled_k is 0, so nothing is sampled", got=name, todo="use greedy/NAME"
        )


def _ignored(config: RunConfig) -> Iterator[tuple[str, str]]:
    """Settings that the rest of the configuration makes meaningless: (key, why)."""
    from groundrl.learner.algorithms import EvalOnlyConfig, GRPOConfig
    from groundrl.losses.config import ClipConfig

    algorithm = config.algorithm
    if isinstance(algorithm, EvalOnlyConfig):
        why = "algorithm=eval_only does not train"
        for key in ("dataset.train_size", "eval.every", "eval.every_samples", "checkpoint", "model.lora"):
            yield key, why
        for key in ("model.freeze_vision", "model.freeze_projector", "model.gradient_checkpointing"):
            yield key, why
    if config.eval.sampled_k == 0 and not isinstance(algorithm, GRPOConfig):
        for key in ("rollout.temperature", "rollout.top_k", "rollout.top_p"):
            yield key, "only greedy evaluation draws tokens in this run"
    if isinstance(algorithm, GRPOConfig):
        once = algorithm.num_iterations * algorithm.mini_batches == 1
        if once and isinstance(algorithm.loss, ClipConfig):
            why = "with one update a batch the ratio is 1, so nothing is clipped"
            yield "algorithm.loss.clip_low", why
            yield "algorithm.loss.clip_high", why
    if config.model.lora.rank == 0:
        for key in ("model.lora.alpha", "model.lora.dropout"):
            yield key, "model.lora.rank is 0, so there are no adapters"
    task = getattr(config.dataset, "task", None)
    if task is Task.OVD:
        yield "dataset.styles", "targets of open-vocabulary detection are named by colour and shape"
    if task is Task.REC:
        for key in ("dataset.negatives", "dataset.none_fraction"):
            yield key, "a referring expression always has its object"
    if config.eval.every == 0:
        yield "eval.every_samples", "eval.every is 0"
