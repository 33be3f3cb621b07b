"""Makes a fake server answer the tiny model's prompts with whole answers, so that whole runs can use it."""

from __future__ import annotations

import base64
import io
import zlib
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image
from tests.fake_vllm_server import FakeServer

from groundrl.models.processor import Processor

BOXES = ([8, 8, 60, 60], [20, 30, 90, 100], [40, 4, 104, 70], [2, 50, 50, 108])


def speak(server: FakeServer, processor: Processor) -> None:
    """Which of four boxes is answered is up to a completion's seed and, by their log-prob, the weights."""
    eos = int(processor.tokenizer.eos_token_id)
    texts = [f'<think>x</think><answer>{{"bbox_2d": {box}}}</answer>' for box in BOXES]
    answers = [[*processor.encode(text).tolist(), eos] for text in texts]

    def draw(body: Any, logprob: float) -> list[int]:
        if "seed" not in body["sampling_params"]:
            return [eos]
        return answers[(body["sampling_params"]["seed"] + int(-logprob * 1000)) % 4]

    def expand(body: Any) -> list[int]:
        counts: list[int] = []
        for part in body.get("content_parts", ()):
            data = base64.b64decode(part["url"].partition(",")[2])
            width, height = Image.open(io.BytesIO(data)).size
            counts.append((width // 28) * (height // 28))
        ids = np.array(body["token_ids"])
        repeats = np.ones(len(ids), dtype=int)
        repeats[ids == processor.image_id] = counts
        return np.repeat(ids, repeats).tolist()

    server.draw, server.expand = draw, expand


def told_by_content(given: list[str]) -> float:
    """A log-prob in (-1.1, -0.1] that only the very same weights have."""
    data = (Path(given[-1]) / "model.safetensors").read_bytes()
    return -0.1 - (zlib.crc32(data) % 1000) / 1000
