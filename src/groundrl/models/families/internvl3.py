"""InternVL3 as transformers lays it out (`internvl`): boxes from 0 to 1000, square tiles, 1-D positions."""

from __future__ import annotations

from groundrl.models.families.declaration import DECODER_LINEARS, Family
from groundrl.types import CoordinateSpace

INTERNVL3 = Family(
    model_type="internvl",
    model_class="InternVLForConditionalGeneration",
    coordinate_space=CoordinateSpace.REL1000,
    patch_size=14,
    merge_size=2,
    image_token="<IMG_CONTEXT>",
    vision_tokens=("<img>", "</img>", "<IMG_CONTEXT>"),
    vision_prefix="model.vision_tower.",
    projector_prefix="model.multi_modal_projector.",
    decoder_layers="model.language_model.layers",
    vision_blocks="model.vision_tower.encoder.layer",
    adapter_targets=DECODER_LINEARS,
    mrope=False,
    tiled=True,
    image_start="<img>",
    image_end="</img>",
)
