"""What the published words resolve to. A value that moves here changes results: say so in the changelog."""

from __future__ import annotations

from typing import Any

import pytest

from groundrl.config.compose import compose_run
from groundrl.run_config import RunConfig


def settings(config: RunConfig) -> dict[str, Any]:
    algorithm: Any = config.algorithm
    grpo = hasattr(algorithm, "kl")
    return {
        "task": str(config.task.name),
        "dataset": type(config.dataset).__name__,
        "prompt": "{targets}" if "{targets}" in config.prompt.template else "{question}",
        "model": config.model.path,
        "init": config.model.init_from,
        "precision": str(config.model.precision),
        "attention": str(config.model.attention),
        "pixels": (config.model.min_pixels, config.model.max_pixels),
        "checkpointing": config.model.gradient_checkpointing,
        "terms": {name: term.weight for name, term in config.reward.terms.items()},
        "steps": algorithm.num_steps,
        "lr": algorithm.lr,
        "decay": str(algorithm.optim.decay),
        "micro_batch": algorithm.optim.micro_batch,
        "batch": (algorithm.prompts_per_step, algorithm.group_size) if grpo else algorithm.batch_size,
        "beta": algorithm.kl.weight() if grpo else None,
        "clip": (algorithm.loss.clip_low, algorithm.loss.clip_high) if grpo else None,
        "temperature": config.rollout.temperature,
        "top": (config.rollout.top_k, config.rollout.top_p),
        "max_new_tokens": config.rollout.max_new_tokens,
        "eval": (config.eval.samples, config.eval.every, config.eval.every_samples, config.eval.sampled_k),
        "metric": config.eval.metric,
        "checkpoint": config.checkpoint.every,
        "threads": config.threads,
    }


PAPER = {
    "init": None,
    "precision": "bfloat16",
    "attention": "flash_attention_2",
    "pixels": (3136, 1003520),
    "checkpointing": True,
    "steps": 600,
    "lr": 1e-6,
    "decay": "linear",
    "batch": (16, 8),
    "clip": (0.2, 0.2),
    "temperature": 0.9,
    "top": (0, 1.0),
    "max_new_tokens": 2048,
    "eval": (2000, 100, 500, 0),
    "checkpoint": 100,
    "threads": None,
}
REC = {
    "task": "rec",
    "dataset": "ShapesRecConfig",
    "prompt": "{question}",
    "metric": "greedy/acc50",
    "terms": {"iou": 1.0, "format": 1.0},
    "beta": 0.04,
}
OVD = {"task": "ovd", "dataset": "ShapesOvdConfig", "prompt": "{targets}", "metric": "greedy/ap", "beta": 0.0}
TINY = {
    "init": None,
    "precision": "float32",
    "attention": "sdpa",
    "pixels": (3136, 50176),
    "checkpointing": False,
    "decay": "linear",
    "micro_batch": 256,
    "beta": 0.0,
    "clip": (0.2, 0.2),
    "temperature": 1.0,
    "top": (0, 1.0),
    "eval": (512, 40, 128, 4),
    "checkpoint": 40,
    "threads": 1,
}


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (
            "",
            {
                **TINY,
                "task": "rec",
                "dataset": "ShapesRecConfig",
                "prompt": "{question}",
                "model": "assets/tiny-vlm/v1/rec-start",
                "terms": {"iou": 1.0, "format": 0.2},
                "steps": 360,
                "lr": 5e-4,
                "batch": (8, 8),
                "max_new_tokens": 48,
                "metric": "greedy/iou",
            },
        ),
        (
            "reward=odlength",
            {
                **TINY,
                **OVD,
                "model": "assets/tiny-vlm/v1/ovd-start",
                "terms": {"odlength": 1.0, "format": 0.1},
                "steps": 80,
                "lr": 1e-4,
                "batch": (6, 16),
                "max_new_tokens": 128,
            },
        ),
        (
            "reward=odlength model=qwen7b",
            {
                **PAPER,
                **OVD,
                "model": "weights/Qwen2.5-VL-7B-Instruct",
                "terms": {"odlength": 1.0, "format": 1.0},
                "micro_batch": 4,
            },
        ),
        (
            "reward=iou model=qwen3b",
            {**PAPER, **REC, "model": "weights/Qwen2.5-VL-3B-Instruct", "micro_batch": 8},
        ),
        (
            "algorithm=sft model=qwen7b",
            {
                **PAPER,
                **REC,
                "model": "weights/Qwen2.5-VL-7B-Instruct",
                "micro_batch": 4,
                "batch": 128,
                "beta": None,
                "clip": None,
            },
        ),
        (
            "model=qwen32b",
            {**PAPER, **REC, "model": "weights/Qwen2.5-VL-32B-Instruct", "micro_batch": 2},
        ),
    ],
    ids=lambda value: value or "default" if isinstance(value, str) else None,
)
def test_resolved(words: str, expected: dict[str, Any]) -> None:
    assert settings(compose_run(words.split())) == expected


def test_a_word_on_the_command_line_wins_over_the_scale() -> None:
    config = compose_run(
        ["model=qwen7b", "rollout.temperature=0.5", "scale.rec.lr=2e-6", "algorithm/kl=none"]
    )
    own = settings(config)
    assert (own["temperature"], own["lr"], own["beta"]) == (0.5, 2e-6, 0.0)


def test_the_reward_chooses_task_data_prompt_and_model_whatever_the_order() -> None:
    first = settings(compose_run(["reward=ap", "scale=7b"]))
    assert first == settings(compose_run(["scale=7b", "reward=ap"]))
    assert (first["task"], first["dataset"], first["model"]) == (
        "ovd", "ShapesOvdConfig", "assets/tiny-vlm/v1/ovd-start",
    )  # fmt: skip
