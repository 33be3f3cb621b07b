"""How much memory a run will need, estimated before its first step and held against what there is.

The formulas are those of `debug=plan` (models/plan_memory.py) with the model that was loaded and the token
counts of the first batch: prompts as they are, completions of full length (supervised: the targets). Not
counted: the process without a model, fragmentation, an engine with memory of its own (vLLM).
"""

from __future__ import annotations

import logging
import math
import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from groundrl.data.sampler import Sampler
from groundrl.learner.algorithms import GRPOConfig, SFTConfig
from groundrl.models.load import Policy
from groundrl.models.plan import sizes_of
from groundrl.models.plan_memory import GIB, MIB, Item, Load, Sizes, drawing, learning, states
from groundrl.models.plan_names import find_units
from groundrl.rollout.collect import Collector
from groundrl.rollout.episode import Context
from groundrl.run_config import RunConfig
from groundrl.training.plan import load_of, rows_of
from groundrl.training.truth import truth_text
from groundrl.world import World

logger = logging.getLogger(__name__)

MORE_RANKS = "use more GPUs (torchrun)"
NAMED = 2
"""Largest items whose settings the warning names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Counted:
    """A row of the first batch: tokens of its prompt, of its completion, and of each image by identity."""

    prompt: int
    completion: int
    images: dict[int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """Peak bytes of one process, and the items it is made of, largest first."""

    bytes: float
    items: list[Item]

    def text(self) -> str:
        """e.g. `about 0.4 GiB`."""
        return f"about {_amount(self.bytes)}"

    def warning(self, available: float, where: str) -> str | None:
        """What to lower, when the estimate exceeds `available` bytes of `where`."""
        if self.bytes <= available:
            return None
        named = [item for item in self.items if item.lower][:NAMED]
        most = "; ".join(f"{item.name} {_amount(item.bytes)}: {item.lower}" for item in named)
        return f"training may need {self.text()}, {where} has {_amount(available)}; most of it is {most}"


def memory_fact(
    config: RunConfig, policy: Policy, sampler: Sampler, collector: Collector, world: World
) -> str | None:
    """The estimate as a fact of the run, None where nothing is trained; warns when it is too much.

    sampler: at its beginning, and not used for anything else. The model must not be sharded yet.
    """
    algorithm = config.algorithm
    if not isinstance(algorithm, GRPOConfig | SFTConfig):
        return None
    wanted = algorithm.prompts_per_step if isinstance(algorithm, GRPOConfig) else algorithm.batch_size
    samples = sampler.next(wanted // world.size)
    contexts = collector.contexts(samples)
    if isinstance(algorithm, GRPOConfig):
        most = config.rollout.max_new_tokens
        rows = [row for c in contexts for row in [_counted(policy, c, most)] * algorithm.group_size]
    else:
        space = policy.family.coordinate_space
        texts = [
            truth_text(sample, tuple(image.frame for image in context.images), space, algorithm.think)
            for sample, context in zip(samples, contexts, strict=True)
        ]
        lengths = [len(policy.processor.encode(text)) + 1 for text in texts]
        rows = [_counted(policy, c, n) for c, n in zip(contexts, lengths, strict=True)]
    base = replace(
        load_of(config, policy.family),
        ranks=world.size,
        engine_parts=config.rollout.engine.copy_parts(world.size),
    )
    shares = base.prompts < base.rows
    group, mini_batches = 1, 1
    if isinstance(algorithm, GRPOConfig):
        group, mini_batches = algorithm.group_size if shares else 1, algorithm.mini_batches
    longest = max(row.prompt for row in rows), max(row.completion for row in rows)
    size = min(rows_of(algorithm.optim, *longest, group), math.ceil(len(rows) / mini_batches))
    sizes = sizes_of(policy.model, policy.family, find_units(policy.model, policy.family))
    found = estimate(sizes, loads(base, rows, size, shares=shares))
    device = next(policy.model.parameters()).device
    warning = found.warning(*available(device, world))
    if warning is not None and world.first:
        logger.warning("%s", warning)
    return found.text()


def loads(base: Load, rows: Sequence[Counted], size: int, *, shares: bool) -> list[Load]:
    """`base` with the counts of each micro-batch of `size` rows, as long as its longest one. Its distinct
    images count as one; with `shares` so does the prompt of rows that are one object."""
    out: list[Load] = []
    for start in range(0, len(rows), size):
        piece = rows[start : start + size]
        images: dict[int, int] = {}
        for row in piece:
            images |= row.images
        out.append(
            replace(
                base,
                rows=len(piece),
                prompts=len({id(row) for row in piece}) if shares else len(piece),
                prompt=max(row.prompt for row in piece),
                completion=max(row.completion for row in piece),
                images=1,
                image_tokens=sum(images.values()),
            )
        )
    return out


def estimate(sizes: Sizes, micro_batches: Sequence[Load]) -> Estimate:
    """What is always there, plus the larger of the largest micro-batch and of drawing."""
    load = micro_batches[0]
    always = states(sizes, load, more_ranks=MORE_RANKS)
    learn = max((learning(sizes, one) for one in micro_batches), key=_sum)
    draw = max((drawing(sizes, one) for one in micro_batches), key=_sum)
    items = [*always, *max(learn, draw, key=_sum)]
    return Estimate(bytes=_sum(items), items=sorted(items, key=lambda item: -item.bytes))


def available(device: torch.device, world: World) -> tuple[float, str]:
    """(bytes that one process may use, what they are of)."""
    if device.type == "cuda":
        return float(torch.cuda.get_device_properties(device).total_memory), f"the device {device}"
    machine = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    share = "" if world.alone else f" for each of {world.size} processes"
    return machine / world.size, f"the machine{share}"


def _counted(policy: Policy, context: Context, completion: int) -> Counted:
    tokens: dict[int, int] = {
        id(image): policy.family.image_tokens(image.grid_thw) for image in context.images
    }
    return Counted(prompt=len(context.ids), completion=completion, images=tokens)


def _amount(size: float) -> str:
    return f"{size / GIB:.1f} GiB" if size >= 0.1 * GIB else f"{size / MIB:.0f} MiB"


def _sum(items: Sequence[Any]) -> float:
    return sum(item.bytes for item in items)
