"""What `debug=plan` needs to know of a run: how many rows of which length, on how many processes."""

from __future__ import annotations

import math
from dataclasses import replace

from groundrl.learner.algorithms import GRPOConfig, SFTConfig
from groundrl.learner.config import OptimConfig, SharedPrefix
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
    settings, family = read_family(*config_file(config.model))
    load = load_of(config, family)
    if family.tiled:
        size = settings["vision_config"]["image_size"]
        side = size if isinstance(size, int) else size[0]
        # several tiles come with one more of the whole image
        tiles = max(1, config.model.max_pixels // side**2)
        tokens = (tiles + (tiles > 1)) * (side // (family.patch_size * family.merge_size)) ** 2
        load = replace(load, image_tokens=tokens, prompt=tokens + TEXT_TOKENS)
    return model_plan(config.model, load)


def load_of(config: RunConfig, family: Family = QWEN25_VL) -> Load:
    """The load of one process: an image of `model.max_pixels`, completions of full length."""
    model, rollout, algorithm = config.model, config.rollout, config.algorithm
    ranks = config.debug.plan_ranks
    image_tokens = math.ceil(model.max_pixels / (family.patch_size * family.merge_size) ** 2)
    prompt = image_tokens + TEXT_TOKENS
    rows, prompts, images, drawn = 0, 0, 0, config.eval.batch
    if isinstance(algorithm, GRPOConfig):
        optim, group = algorithm.optim, algorithm.group_size
        allowed = model.attention is not Attention.eager and not family.recurrent
        shares = optim.shared_prefix is SharedPrefix.auto and allowed
        drawn = math.ceil(algorithm.prompts_per_step * group / ranks)
        most = rows_of(optim, prompt, rollout.max_new_tokens, group if shares else 1)
        rows = min(most, drawn)
        images = math.ceil(rows / group)
        prompts = images if shares else rows
    elif isinstance(algorithm, SFTConfig):
        most = rows_of(algorithm.optim, prompt, rollout.max_new_tokens, 1)
        rows = prompts = images = min(most, math.ceil(algorithm.batch_size / ranks))
    beta = algorithm.kl.weight() if isinstance(algorithm, GRPOConfig) else 0.0
    return Load(
        ranks=ranks,
        weight_bytes=4 if model.precision is Precision.float32 else 2,
        rows=rows,
        prompts=prompts,
        images=images,
        prompt=prompt,
        completion=rollout.max_new_tokens,
        image_tokens=image_tokens,
        merge=family.merge_size**2,
        drawn=min(rollout.engine.max_batch, drawn),
        trains=algorithm.training_steps() > 0,
        checkpointing=model.gradient_checkpointing,
        reference=beta > 0 and model.lora.rank == 0,
        eager=model.attention is Attention.eager,
        engine_parts=rollout.engine.copy_parts(ranks),
    )


def rows_of(optim: OptimConfig, prompt: int, completion: int, group: int) -> int:
    """Rows of a full micro-batch whose prompt tokens count once for `group` rows."""
    if optim.micro_tokens is None:
        return optim.micro_batch
    groups, rest = divmod(optim.micro_tokens, prompt + group * completion)
    return max(1, groups * group + max(0, rest - prompt) // completion)
