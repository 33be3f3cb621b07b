"""The tiny VLM's architecture: Qwen2.5-VL, every part real, every width small."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from transformers import PreTrainedTokenizerFast, Qwen2_5_VLConfig, Qwen2_5_VLForConditionalGeneration
from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import Qwen2VLImageProcessorPil

PATCH = 14
MERGE = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Width:
    """The language model's size: width, layers, heads of 32 and key-value heads."""

    hidden: int = 128
    layers: int = 3
    heads: int = 4
    kv_heads: int = 2


SIZES = {
    "s": Width(),
    "m": Width(hidden=192, layers=3, heads=6, kv_heads=2),
    "l": Width(hidden=256, layers=4, heads=8, kv_heads=4),
}
"""About 0.8, 1.4 and 2.8 million parameters, in the places of 3B, 7B and 32B."""


def build_config(tokenizer: PreTrainedTokenizerFast, width: Width = SIZES["s"]) -> Qwen2_5_VLConfig:
    """Heads of 32 (vLLM needs one of 32, 64, ...), M-RoPE sections that fill half a head (16).

    rope_theta is 10: sections hand the lowest frequencies to the width axis, and with 1e6 a 4 x 4 grid of
    image tokens would hardly turn them.
    """
    ids = tokenizer.get_vocab()
    text_config = {
        "vocab_size": len(tokenizer),
        "hidden_size": width.hidden,
        "intermediate_size": 2 * width.hidden,
        "num_hidden_layers": width.layers,
        "num_attention_heads": width.heads,
        "num_key_value_heads": width.kv_heads,
        "max_position_embeddings": 4096,
        "rope_parameters": {"rope_type": "default", "rope_theta": 10.0, "mrope_section": [4, 6, 6]},
        "tie_word_embeddings": True,
        "bos_token_id": None,
        "eos_token_id": ids["<|im_end|>"],
        "pad_token_id": ids["<|endoftext|>"],
    }
    vision_config = {
        "depth": 2,
        "hidden_size": 64,
        "intermediate_size": 128,
        "num_heads": 4,
        "patch_size": PATCH,
        "spatial_merge_size": MERGE,
        "temporal_patch_size": 2,
        "window_size": 112,
        "fullatt_block_indexes": [0, 1],
        "out_hidden_size": width.hidden,
    }
    return Qwen2_5_VLConfig(
        text_config=text_config,
        vision_config=vision_config,
        tie_word_embeddings=True,
        image_token_id=ids["<|image_pad|>"],
        video_token_id=ids["<|video_pad|>"],
        vision_start_token_id=ids["<|vision_start|>"],
        vision_end_token_id=ids["<|vision_end|>"],
    )


def build_model(
    tokenizer: PreTrainedTokenizerFast, seed: int, width: Width = SIZES["s"]
) -> Qwen2_5_VLForConditionalGeneration:
    """A freshly initialised float32 model."""
    torch.manual_seed(seed)
    model = Qwen2_5_VLForConditionalGeneration(build_config(tokenizer, width))
    model.generation_config.eos_token_id = tokenizer.eos_token_id
    model.generation_config.pad_token_id = tokenizer.pad_token_id
    return model.float()


def build_image_processor() -> Qwen2VLImageProcessorPil:
    """The real image processor; its pixel limits keep a 112 px scene at 16 image tokens."""
    return Qwen2VLImageProcessorPil(
        patch_size=PATCH,
        merge_size=MERGE,
        temporal_patch_size=2,
        size={"shortest_edge": 56 * 56, "longest_edge": 224 * 224},
    )
