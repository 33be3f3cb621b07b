"""Small pieces that tests of the learner and of the engines are built from."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from groundrl.learner.config import OptimConfig
from groundrl.learner.experience import Experience
from groundrl.learner.learner import Learner, Plan
from groundrl.learner.logprobs import Scorer
from groundrl.learner.objective import Objective, PolicyObjective
from groundrl.losses.clip import Clip
from groundrl.losses.config import Normalisation
from groundrl.models.forward import Row
from groundrl.models.processor import Processor
from groundrl.rollout.episode import Context
from groundrl.types import ImagePart, Message, TextPart

SIZES = (
    ((112, 112),),
    ((84, 140),),
    ((140, 84),),
    ((112, 112), (56, 84)),
    (),
)
"""Image sizes of prompts that differ in every way: square, tall, wide, two images, none."""


def picture(size: tuple[int, int], seed: int) -> Image.Image:
    """Coloured 14 px blocks."""
    rng = np.random.default_rng(seed)
    width, height = size
    blocks = rng.integers(0, 256, size=(-(-height // 14), -(-width // 14), 3), dtype=np.uint8)
    pixels = blocks.repeat(14, axis=0).repeat(14, axis=1)[:height, :width]
    return Image.fromarray(np.ascontiguousarray(pixels))


def ask(processor: Processor, text: str, sizes: Sequence[tuple[int, int]] = (), seed: int = 0) -> Context:
    """A user turn with pictures of the given sizes in front of the text."""
    images = tuple(processor.prepare(picture(size, seed + n)) for n, size in enumerate(sizes))
    parts = (*(ImagePart(n) for n in range(len(images))), TextPart(text))
    return Context(ids=processor.render((Message(role="user", parts=parts),), images), images=images)


def varied_contexts(processor: Processor) -> list[Context]:
    """One prompt for each entry of SIZES, all of different length."""
    return [ask(processor, "red circle " * (n + 1), sizes, 10 * n) for n, sizes in enumerate(SIZES)]


def experience(
    processor: Processor,
    contexts: Sequence[Context],
    *,
    lengths: Sequence[int],
    advantages: Sequence[float],
    seed: int = 0,
    rollouts: Sequence[int] | None = None,
    selected: Callable[[int, int], bool] = lambda row, token: True,
) -> list[Experience]:
    """Rows with random text tokens as completions; row i uses context i modulo their number."""
    rng = np.random.default_rng(seed)
    out: list[Experience] = []
    for number, (length, advantage) in enumerate(zip(lengths, advantages, strict=True)):
        context = contexts[number % len(contexts)]
        chosen = np.array([selected(number, t) for t in range(length)], dtype=bool)
        behaviour = np.where(chosen, -1.0, np.nan).astype(np.float32)
        out.append(
            Experience(
                row=Row(
                    prompt=context.ids,
                    images=context.images,
                    completion=rng.integers(0, 590, size=length).astype(np.int64),
                ),
                selected=chosen,
                advantage=advantage,
                behaviour_logprobs=behaviour,
                rollout=number if rollouts is None else rollouts[number],
            )
        )
    return out


def plan(**changes: Any) -> Plan:
    values: dict[str, Any] = {
        "num_steps": 10,
        "lr": 1e-3,
        "num_iterations": 1,
        "mini_batches": 1,
        "normalisation": Normalisation.sequence_mean,
        "constant_length": 8,
    }
    return Plan(**values | changes)


def scorer(processor: Processor, temperature: float = 1.0) -> Scorer:
    return Scorer(temperature=temperature, banned_ids=processor.banned_ids, pad_id=processor.pad_id)


def learner(
    model: Any,
    processor: Processor,
    *,
    objective: Objective | None = None,
    beta: float = 0.0,
    reference: Any = None,
    optim: OptimConfig | None = None,
    **changes: Any,
) -> Learner:
    return Learner(
        model,
        scorer(processor),
        objective or PolicyObjective(term=Clip(clip_low=0.2, clip_high=0.2), beta=beta),
        plan(**changes),
        optim or OptimConfig(),
        reference=reference,
    )


def gradients(model: Any) -> dict[str, NDArray[np.float32]]:
    return {n: p.grad.numpy().copy() for n, p in model.named_parameters() if p.grad is not None}


def weights(model: Any) -> dict[str, NDArray[np.float32]]:
    return {name: value.detach().numpy().copy() for name, value in model.named_parameters()}
