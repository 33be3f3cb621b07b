"""Qwen2.5-VL: boxes in pixels of the resized image."""

from __future__ import annotations

from groundrl.models.families.declaration import DECODER_LINEARS, QWEN_VISION_TOKENS, Family
from groundrl.types import CoordinateSpace

QWEN25_VL = Family(
    model_type="qwen2_5_vl",
    model_class="Qwen2_5_VLForConditionalGeneration",
    coordinate_space=CoordinateSpace.PIXEL_RESIZED,
    patch_size=14,
    merge_size=2,
    image_token="<|image_pad|>",
    vision_tokens=QWEN_VISION_TOKENS,
    vision_prefix="model.visual.",
    projector_prefix="model.visual.merger.",
    decoder_layers="model.language_model.layers",
    vision_blocks="model.visual.blocks",
    adapter_targets=DECODER_LINEARS,
)
