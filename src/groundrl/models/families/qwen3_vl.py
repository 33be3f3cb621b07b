"""Qwen3-VL: boxes from 0 to 1000, and vision features added behind the first decoder layers (deepstack)."""

from __future__ import annotations

from groundrl.models.families.declaration import DECODER_LINEARS, QWEN_VISION_TOKENS, Family
from groundrl.types import CoordinateSpace

QWEN3_VL = Family(
    model_type="qwen3_vl",
    model_class="Qwen3VLForConditionalGeneration",
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
    more_projectors=("model.visual.deepstack_merger_list.",),
    deepstack=True,
)
