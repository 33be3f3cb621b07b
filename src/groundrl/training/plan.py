"""What `debug=plan` needs to know of a run: how many rows of which length, on how many processes."""

from __future__ import annotations

import math

from groundrl.learner.algorithms import GRPOConfig, SFTConfig
from groundrl.models.config import Attention, Precision
from groundrl.models.family import QWEN25_VL, Family
from groundrl.models.plan import config_file
from groundrl.models.plan import plan as model_plan
from groundrl.models.plan_memory import Load
from groundrl.models.plan_names import read_family
from groundrl.run_config import RunConfig

TEXT_TOKENS = 256
"""Assumed for the prompt besides its image: the published detection prompt has about 150."""


def plan(config: RunConfig) -> str:
    """The plan of a run, as text. Raises UserError when the architecture cannot be built."""
    _, family = read_family(*config_file(config.model))
    return model_plan(config.model, load_of(config, family))


def load_of(config: RunConfig, family: Family = QWEN25_VL) -> Load:
    """The load of one process: an image of `model.max_pixels`, completions of full length."""
    model, rollout, algorithm = config.model, config.rollout, config.algorithm
    ranks = config.debug.plan_ranks
    image_tokens = math.ceil(model.max_pixels / (family.patch_size * family.merge_size) ** 2)
    rows, images, drawn = 0, 0, config.eval.batch
    if isinstance(algorithm, GRPOConfig):
        batch = math.ceil(algorithm.prompts_per_step * algorithm.group_size / ranks)
        rows, drawn = min(algorithm.optim.micro_batch, batch), batch
        images = math.ceil(rows / algorithm.group_size)
    elif isinstance(algorithm, SFTConfig):
        rows = images = min(algorithm.optim.micro_batch, math.ceil(algorithm.batch_size / ranks))
    beta = algorithm.kl.weight() if isinstance(algorithm, GRPOConfig) else 0.0
    return Load(
        ranks=ranks,
        weight_bytes=4 if model.precision is Precision.float32 else 2,
        rows=rows,
        images=images,
        prompt=image_tokens + TEXT_TOKENS,
        completion=rollout.max_new_tokens,
        image_tokens=image_tokens,
        merge=family.merge_size**2,
        drawn=min(rollout.engine.max_batch, drawn),
        trains=algorithm.training_steps() > 0,
        checkpointing=model.gradient_checkpointing,
        reference=beta > 0 and model.lora.rank == 0,
        eager=model.attention is Attention.eager,
    )
