"""A tiny random checkpoint of every family, written as its own folder with the shipped tokenizer."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
import transformers
from transformers import AutoTokenizer
from transformers.models.got_ocr2.image_processing_pil_got_ocr2 import GotOcr2ImageProcessorPil
from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import Qwen2VLImageProcessorPil

from groundrl.config.repo import resolve
from groundrl.models.family import FAMILIES

SHIPPED = "assets/tiny-vlm/v1/rec-start"
VISION: dict[str, dict[str, Any]] = {
    "qwen2_vl": {"embed_dim": 32, "mlp_ratio": 2, "hidden_size": 64},
    "qwen2_5_vl": {
        "hidden_size": 32,
        "intermediate_size": 64,
        "out_hidden_size": 64,
        "window_size": 56,
        "fullatt_block_indexes": [1],
    },
    "qwen3_vl": {
        "hidden_size": 32,
        "intermediate_size": 64,
        "out_hidden_size": 64,
        "num_position_embeddings": 64,
        "deepstack_visual_indexes": [0, 1],
    },
    "qwen3_5": {
        "hidden_size": 32,
        "intermediate_size": 64,
        "out_hidden_size": 64,
        "num_position_embeddings": 64,
    },
}
ROPE = {"rope_type": "default", "rope_theta": 10.0, "mrope_section": [4, 6, 6]}
INTERLEAVED = ROPE | {"mrope_section": [6, 5, 5], "mrope_interleaved": True}
TEXT: dict[str, dict[str, Any]] = {
    "qwen3_vl": {"head_dim": 32, "rope_parameters": INTERLEAVED},
    # three layers with a state, one with attention, as in every block of four of the published models
    "qwen3_5": {
        "num_hidden_layers": 4,
        "full_attention_interval": 4,
        "head_dim": 64,
        "rope_parameters": INTERLEAVED | {"partial_rotary_factor": 0.5},
        "linear_num_key_heads": 2,
        "linear_num_value_heads": 4,
        "linear_key_head_dim": 64,
        "linear_value_head_dim": 64,
    },
}
"""What differs from two layers of two heads of 32."""

TILE = 56
"""16 patches of 14, 4 image tokens."""


def internvl_settings(tokenizer: Any) -> dict[str, Any]:
    """The same sizes in the words of InternVL."""
    ids = tokenizer.get_vocab()
    return {
        "text_config": {
            "model_type": "qwen2",
            "vocab_size": len(tokenizer),
            "hidden_size": 64,
            "intermediate_size": 96,
            "num_hidden_layers": 2,
            "num_attention_heads": 2,
            "num_key_value_heads": 1,
            "max_position_embeddings": 2048,
            "eos_token_id": ids["<|im_end|>"],
            "pad_token_id": ids["<|endoftext|>"],
        },
        "vision_config": {
            "hidden_size": 32,
            "num_hidden_layers": 2,
            "num_attention_heads": 2,
            "intermediate_size": 64,
            "image_size": [TILE, TILE],
        },
        "tie_word_embeddings": False,
        "image_token_id": ids["<IMG_CONTEXT>"],
        "image_seq_length": 4,
    }


def internvl_tokenizer() -> Any:
    """The shipped tokenizer with InternVL's tokens. The published template writes one <IMG_CONTEXT> and a
    line break for an image."""
    named = {
        "start_image_token": "<img>",
        "end_image_token": "</img>",
        "context_image_token": "<IMG_CONTEXT>",
        "video_token": "<video>",
    }
    tokenizer: Any = AutoTokenizer.from_pretrained(str(resolve(SHIPPED)), extra_special_tokens=named)
    tokenizer.chat_template = tokenizer.chat_template.replace(
        "<|vision_start|><|image_pad|><|vision_end|>", "<IMG_CONTEXT>\\n"
    )
    assert "<IMG_CONTEXT>" in tokenizer.chat_template
    return tokenizer


def settings(model_type: str, tokenizer: Any) -> dict[str, Any]:
    """The config of a tiny instance: 2 + 2 layers (Qwen3.5: 4 + 2), hidden 64 and 32."""
    ids = tokenizer.get_vocab()
    text = {
        "vocab_size": len(tokenizer),
        "hidden_size": 64,
        "intermediate_size": 96,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "num_key_value_heads": 1,
        "max_position_embeddings": 2048,
        "rope_parameters": ROPE,
        "eos_token_id": ids["<|im_end|>"],
        "pad_token_id": ids["<|endoftext|>"],
        **TEXT.get(model_type, {}),
    }
    return {
        "text_config": text,
        "vision_config": {
            "depth": 2,
            "num_heads": 2,
            "patch_size": FAMILIES[model_type].patch_size,
            **VISION[model_type],
        },
        "tie_word_embeddings": False,
        "image_token_id": ids["<|image_pad|>"],
        "video_token_id": ids["<|video_pad|>"],
        "vision_start_token_id": ids["<|vision_start|>"],
        "vision_end_token_id": ids["<|vision_end|>"],
    }


def build(model_type: str, folder: Path) -> None:
    """Write the checkpoint. Weights are spread wide, so that what a token sees shows in its log-probs."""
    family = FAMILIES[model_type]
    tokenizer = internvl_tokenizer() if family.tiled else AutoTokenizer.from_pretrained(str(resolve(SHIPPED)))
    model_class: Any = getattr(transformers, family.model_class)
    values = internvl_settings(tokenizer) if family.tiled else settings(model_type, tokenizer)
    torch.manual_seed(0)
    model = model_class(model_class.config_class(**values)).float()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if parameter.ndim > 1:
                parameter.mul_(5.0)
            if name.endswith(".A_log"):
                # slow decay: a state that padding or a neighbour got into shows many tokens later
                parameter.copy_(torch.linspace(-5.0, 0.0, len(parameter)))
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    if family.tiled:
        GotOcr2ImageProcessorPil(size={"height": TILE, "width": TILE}).save_pretrained(folder)
        return
    Qwen2VLImageProcessorPil(
        patch_size=family.patch_size,
        merge_size=family.merge_size,
        temporal_patch_size=2,
        size={"shortest_edge": 3136, "longest_edge": 50176},
    ).save_pretrained(folder)
