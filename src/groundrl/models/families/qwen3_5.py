"""Qwen3.5: boxes from 0 to 1000; three of four decoder layers carry a recurrent state (gated delta rule, Yang
et al. 2024, section 3) instead of attention."""

from __future__ import annotations

from groundrl.models.families.declaration import DECODER_LINEARS, QWEN_VISION_TOKENS, Family
from groundrl.types import CoordinateSpace

QWEN35 = Family(
    model_type="qwen3_5",
    model_class="Qwen3_5ForConditionalGeneration",
    coordinate_space=CoordinateSpace.REL1000,
    patch_size=16,
    merge_size=2,
    image_token="<|image_pad|>",
    vision_tokens=QWEN_VISION_TOKENS,
    vision_prefix="model.visual.",
    projector_prefix="model.visual.merger.",
    decoder_layers="model.language_model.layers",
    vision_blocks="model.visual.blocks",
    adapter_targets=DECODER_LINEARS,
    # the two gates in_proj_a and in_proj_b are as narrow as an adapter
    recurrent_targets=("in_proj_qkv", "in_proj_z", "out_proj", "gate_proj", "up_proj", "down_proj"),
)
