"""A group's forward and backward: prompt computed once a group, against padded rows that repeat it.

Both sides are the learner's own Scorer (algorithm.optim.shared_prefix auto and off) on the same rows of a
randomly initialised Qwen2.5-VL, so loss, head and vision tower (each image once on both sides) are the same
and only the language model's work differs. Prompts are one image and 24 text tokens; completions have full
length. Pairs are interleaved in one process with one thread; figures are medians over pairs, with the 2.5th
and 97.5th percentile of the median under resampling. Memory is the growth of the peak resident set.

`limit` is the ratio of the two sides' arithmetic (multiply-adds of matrix products, attention counted by the
pairs that can see each other, in the vision tower too): what a perfect implementation would gain.

    python benchmarks/shared_prefix.py [--prompts 256 2048] [--groups 4 32] [--pairs 7] [--write]
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import sys
import time
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import torch
from transformers import Qwen2_5_VLConfig, Qwen2_5_VLForConditionalGeneration

from groundrl.learner.config import SharedPrefix
from groundrl.learner.logprobs import Scorer
from groundrl.models.forward import Row
from groundrl.types import ImageFrame, PreparedImage
from peers.measure import interval, reset_peak, resident

RESULT = Path(__file__).parent / "results" / "shared_prefix.json"
TEXT = 24
IMAGE_ID, VOCABULARY = 440, 448
SIDES = {"shared": SharedPrefix.auto, "padded": SharedPrefix.off}


def build_model(hidden: int, layers: int) -> Any:
    """Heads of 32, two query heads a key head, a vision tower of two blocks."""
    torch.manual_seed(0)
    text = {
        "vocab_size": VOCABULARY, "hidden_size": hidden, "intermediate_size": 3 * hidden,
        "num_hidden_layers": layers, "num_attention_heads": hidden // 32,
        "num_key_value_heads": hidden // 64, "max_position_embeddings": 8192, "tie_word_embeddings": True,
        "rope_parameters": {"rope_type": "default", "rope_theta": 1e4, "mrope_section": [4, 6, 6]},
        "bos_token_id": None, "eos_token_id": 1, "pad_token_id": 0,
    }  # fmt: skip
    vision = {
        "depth": 2, "hidden_size": 64, "intermediate_size": 128, "num_heads": 2, "patch_size": 14,
        "spatial_merge_size": 2, "temporal_patch_size": 2, "window_size": 112,
        "fullatt_block_indexes": [1], "out_hidden_size": hidden,
    }  # fmt: skip
    config: Any = Qwen2_5_VLConfig(
        text_config=text, vision_config=vision, tie_word_embeddings=True, image_token_id=IMAGE_ID,
        video_token_id=441, vision_start_token_id=442, vision_end_token_id=443,
    )  # fmt: skip
    config.text_config._attn_implementation = "sdpa"
    return Qwen2_5_VLForConditionalGeneration(config).float().train()


def build_rows(prompt: int, group: int, prompts: int, completion: int) -> list[Row]:
    """`prompts` groups; the image fills the prompt up to TEXT tokens, in rows of 8 image tokens."""
    rng = np.random.default_rng(0)
    rows: list[Row] = []
    lines = max(1, (prompt - TEXT) // 8)
    for _ in range(prompts):
        size = (16 * 14, lines * 28)
        image = PreparedImage(
            patches=rng.standard_normal((2 * lines * 16, 1176), dtype=np.float32),
            grid_thw=(1, 2 * lines, 16),
            frame=ImageFrame(original=size, processed=size),
        )
        ids = np.concatenate([np.full(8 * lines, IMAGE_ID), rng.integers(2, 440, TEXT)]).astype(np.int64)
        images = (image,)
        rows += [
            Row(prompt=ids, images=images, completion=rng.integers(2, 440, completion).astype(np.int64))
            for _ in range(group)
        ]
    return rows


def arithmetic(model: Any, rows: list[Row], *, shared: bool) -> float:
    """Multiply-adds of a forward pass; a backward pass takes twice that on both sides."""
    text = model.config.text_config
    layer = model.model.language_model.layers[0]
    weights = sum(p.numel() for p in layer.parameters() if p.ndim == 2)
    width = text.num_attention_heads * (text.hidden_size // text.num_attention_heads)
    patches = {id(image): len(image.patches) for row in rows for image in row.images}
    vision = sum(patches.values()) * sum(p.numel() for p in model.model.visual.blocks.parameters())
    vision += sum(patches.values()) / 4 * sum(p.numel() for p in model.model.visual.merger.parameters())
    tower = model.config.vision_config
    window = (tower.window_size // tower.patch_size) ** 2
    for block in range(tower.depth):
        full = block in tower.fullatt_block_indexes
        seen = sum(count * (count if full else min(count, window)) for count in patches.values())
        vision += 2 * seen * tower.hidden_size
    head = sum(len(row.completion) for row in rows) * VOCABULARY * text.hidden_size
    prompts = {id(row.prompt): len(row.prompt) for row in rows}
    tokens = pairs = 0.0
    for row in rows:
        p, c = len(row.prompt), len(row.completion)
        tokens += c if shared else p + c
        pairs += c * p + c * c / 2 if shared else (p + c) ** 2 / 2
    if shared:
        tokens += sum(prompts.values())
        pairs += sum(p * p / 2 for p in prompts.values())
    return vision + head + text.num_hidden_layers * (tokens * weights + 2 * pairs * width)


def once(model: Any, rows: list[Row], side: str) -> tuple[float, float]:
    """(CPU seconds, MiB) of one forward and backward."""
    scorer = Scorer(temperature=1.0, banned_ids=(IMAGE_ID,), pad_id=0, shared_prefix=SIDES[side])
    model.zero_grad(set_to_none=True)
    before = reset_peak()
    start = time.process_time()
    scores = scorer(model, rows)
    (scores.logprobs * scores.mask).mean().backward()
    taken = time.process_time() - start
    return taken, resident("VmHWM") - before


def measure(model: Any, prompt: int, group: int, options: argparse.Namespace) -> dict[str, Any]:
    rows = build_rows(prompt, group, options.batch, options.completion)
    seconds: dict[str, list[float]] = {side: [] for side in SIDES}
    memory: dict[str, list[float]] = {side: [] for side in SIDES}
    for number in range(options.pairs + 1):
        for side in SIDES if number % 2 else reversed(SIDES):
            taken, grown = once(model, rows, side)
            if number:  # the first pair warms up
                seconds[side].append(taken)
                memory[side].append(grown)
    ratios = [p / s for p, s in zip(seconds["padded"], seconds["shared"], strict=True)]
    work = {side: arithmetic(model, rows, shared=side == "shared") for side in SIDES}
    return {
        "prompt": len(rows[0].prompt),
        "group": group,
        "padded_cpu_s": round(statistics.median(seconds["padded"]), 4),
        "shared_cpu_s": round(statistics.median(seconds["shared"]), 4),
        "ratio": round(statistics.median(ratios), 2),
        "ratio_interval": interval(ratios),
        "limit": round(work["padded"] / work["shared"], 2),
        "padded_mib": round(statistics.median(memory["padded"])),
        "shared_mib": round(statistics.median(memory["shared"])),
    }


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--prompts", type=int, nargs="+", default=[256, 512, 1024, 2048], help="tokens")
    parser.add_argument("--groups", type=int, nargs="+", default=[4, 8, 16, 32], help="completions a prompt")
    parser.add_argument("--batch", type=int, default=1, help="groups in the forward pass")
    parser.add_argument("--completion", type=int, default=64)
    parser.add_argument("--hidden", type=int, default=128)
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--pairs", type=int, default=7)
    parser.add_argument("--write", action="store_true", help=f"write {RESULT.name}")
    options = parser.parse_args()
    torch.set_num_threads(1)
    model = build_model(options.hidden, options.layers)
    table: list[dict[str, Any]] = []
    print("| prompt | group | padded s | shared s | ratio | interval | limit | padded MiB | shared MiB |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- | --- |")
    for prompt in options.prompts:
        for group in options.groups:
            row = measure(model, prompt, group, options)
            table.append(row)
            print("| " + " | ".join(str(value) for value in row.values()) + " |", flush=True)
    result = {
        "sizes": table,
        "parameters": sum(p.numel() for p in model.parameters()),
        "groups_in_a_pass": options.batch,
        "completion": options.completion,
        "pairs": options.pairs,
        "machine": f"{platform.machine()}, {os.cpu_count()} cores, one thread",
        "torch": torch.__version__,
    }
    if options.write:
        RESULT.parent.mkdir(exist_ok=True)
        RESULT.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
