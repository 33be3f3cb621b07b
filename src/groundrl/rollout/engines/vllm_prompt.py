"""Between our requests and vLLM's: one placeholder per image going in, expanded again coming out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from groundrl.errors import ConfigError
from groundrl.models.pixels import picture_of
from groundrl.models.processor import Processor
from groundrl.rollout.engines.base import Given, Request
from groundrl.rollout.engines.vllm import VllmConfig
from groundrl.types import PreparedImage

Prompt = dict[str, Any]
"""vLLM's tokens prompt: `prompt_token_ids` and, with images, `multi_modal_data`."""


def compact(ids: NDArray[np.int64], image_id: int, images: int) -> list[int]:
    """Ids with every run of image ids cut to one; vLLM expands them itself (and would expand ours again).

    Raises ValueError when the runs are not as many as the images.
    """
    is_image = ids == image_id
    repeats = np.zeros(len(ids), dtype=bool)
    repeats[1:] = is_image[1:] & is_image[:-1]
    kept = ids[~repeats]
    found = int((kept == image_id).sum())
    if found != images:
        raise ValueError(f"vllm: the prompt holds {found} runs of image tokens for {images} images")
    return kept.tolist()


def without_marks(ids: list[int], processor: Processor) -> list[int]:
    """Ids without the marks around a family's image token; vLLM writes them with its features."""
    family = processor.family
    if not family.image_start:
        return ids
    convert = processor.tokenizer.convert_tokens_to_ids
    around = (convert(family.image_start), processor.image_id, convert(family.image_end))
    out: list[int] = []
    for token in ids:
        out.append(token)
        if tuple(out[-3:]) == around:
            out[-3:] = [processor.image_id]
    return out


def as_prompt(ids: NDArray[np.int64], images: Sequence[PreparedImage], processor: Processor) -> Prompt:
    """The prompt of expanded `ids` with its pictures, as vLLM takes it."""
    kept = compact(ids, processor.image_id, len(images))
    prompt: Prompt = {"prompt_token_ids": without_marks(kept, processor)}
    if images:
        pictures = [picture_of(image, processor.image_processor, processor.family) for image in images]
        prompt["multi_modal_data"] = {"image": pictures}
    return prompt


def check_expanded(ours: NDArray[np.int64], theirs: Sequence[int]) -> None:
    """Raise ValueError unless vLLM saw exactly the tokens that the learner will score."""
    if not np.array_equal(ours, np.asarray(theirs, dtype=np.int64)):
        raise ValueError(
            f"vllm: the engine computed {len(theirs)} prompt tokens where the learner has {len(ours)}; its "
            "image processor does not agree with ours"
        )


def check_size(asked: Request | Given, tokens: int, config: VllmConfig) -> None:
    """Raise ConfigError for what the engine was not made for; tokens: of prompt and completion together."""
    if tokens > config.max_model_len:
        raise ConfigError(
            "rollout.engine.max_model_len",
            f"a prompt of {len(asked.prompt_ids)} tokens needs {tokens} with its completion",
            got=config.max_model_len,
            todo="raise it (and max_batched_tokens), or lower model.max_pixels",
        )
    if len(asked.images) > config.max_images:
        raise ConfigError(
            "rollout.engine.max_images",
            f"a prompt has {len(asked.images)} images",
            got=config.max_images,
            todo="raise it",
        )
