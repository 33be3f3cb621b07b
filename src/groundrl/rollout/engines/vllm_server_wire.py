"""What is said to vLLM's token endpoint (`/inference/v1/generate`) and what it answers."""

from __future__ import annotations

import base64
import io
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from groundrl.models.processor import Processor
from groundrl.rollout.engines.base import Completion, Given, Request, Sampling
from groundrl.rollout.engines.vllm_prompt import as_prompt, check_expanded
from groundrl.types import PreparedImage

BANNED = -1e30
"""Bias of a token that may not be drawn. JSON has no infinity; in float32 its share is exactly 0."""

SEED_BITS = (1 << 63) - 1

Body = dict[str, Any]


def prompt_body(ids: NDArray[np.int64], images: Sequence[PreparedImage], processor: Processor) -> Body:
    """The prompt's part of a request: one placeholder per image, and the images as lossless data URLs."""
    prompt = as_prompt(ids, images, processor)
    body: Body = {"token_ids": prompt["prompt_token_ids"], "return_token_ids": True}
    if images:
        pictures = prompt["multi_modal_data"]["image"]
        body["content_parts"] = [{"type": "image_url", "url": data_url(picture)} for picture in pictures]
    return body


def data_url(picture: Any) -> str:
    file = io.BytesIO()
    picture.save(file, "PNG", compress_level=1)
    return "data:image/png;base64," + base64.b64encode(file.getvalue()).decode("ascii")


def drawing(sampling: Sampling, seed: int, processor: Processor) -> Body:
    """Sampling parameters of one completion."""
    chosen: Body = {"structured_outputs": {"choice": list(sampling.choices)}} if sampling.choices else {}
    return {
        **chosen,
        "temperature": sampling.temperature,
        "max_tokens": sampling.max_new_tokens,
        "seed": seed & SEED_BITS,
        "logprobs": 0,
        "detokenize": False,
        "stop_token_ids": sorted(processor.eos_ids),
        "logit_bias": {str(token): BANNED for token in processor.banned_ids},
    }


SCORING: Body = {"temperature": 0.0, "max_tokens": 1, "prompt_logprobs": 0, "detokenize": False}
"""Sampling parameters of a request whose prompt is scored."""


def versions(answer: Any) -> set[str]:
    """Names of the weights that made the answer. Raises KeyError, IndexError or TypeError when it is none."""
    return {span["version"] for span in answer["choices"][0]["weight_versions"] or ()}


def whole(answer: Any) -> bool:
    """Whether the answer ended by itself and was not cut off with its server."""
    return answer["choices"][0]["finish_reason"] in ("stop", "length")


def completion_of(request: Request, answer: Any) -> Completion:
    """Raises ValueError when the server computed other prompt tokens than ours."""
    check_expanded(request.prompt_ids, answer["prompt_token_ids"])
    (choice,) = answer["choices"]
    drawn = choice["logprobs"]["content"]
    return Completion(
        ids=np.array([one["token_id"] for one in drawn], dtype=np.int64),
        logprobs=np.array([one["logprob"] for one in drawn], dtype=np.float32),
        finished=choice["finish_reason"] == "stop",
    )


def scores_of(given: Given, answer: Any) -> NDArray[np.float32]:
    """Log-prob of each given completion token, float32 [R]; raises ValueError as above."""
    ids = np.concatenate([given.prompt_ids, given.completion_ids])
    check_expanded(ids, answer["prompt_token_ids"])
    known = answer["prompt_logprobs"][len(given.prompt_ids) :]
    tokens = zip(given.completion_ids.tolist(), known, strict=True)
    return np.array([entry[str(token)]["logprob"] for token, entry in tokens], dtype=np.float32)
