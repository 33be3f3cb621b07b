"""What differs between model families, as data: names, sizes, coordinate space.

The family is read from the checkpoint's config (`model_type`), never from its path.
"""

from __future__ import annotations

from dataclasses import dataclass

from groundrl.errors import UserError
from groundrl.types import CoordinateSpace


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """One model family.

    coordinate_space   the space its boxes are written in
    patch_size         side of a vision patch in pixels; an image token covers patch_size * merge_size
    vision_tokens      placeholder tokens a policy must never sample
    vision_prefix      parameter-name prefix of the vision tower
    projector_prefix   parameter-name prefix of the module that maps vision features to the language model
    decoder_layers, vision_blocks   module paths of the repeated blocks (sharding units)
    adapter_targets    linear layers of the language model that LoRA adapts
    """

    model_type: str
    model_class: str
    coordinate_space: CoordinateSpace
    patch_size: int
    merge_size: int
    image_token: str
    vision_tokens: tuple[str, ...]
    vision_prefix: str
    projector_prefix: str
    decoder_layers: str
    vision_blocks: str
    adapter_targets: tuple[str, ...]

    def image_tokens(self, grid_thw: tuple[int, int, int]) -> int:
        """Language-model tokens of one image."""
        t, h, w = grid_thw
        return t * h * w // self.merge_size**2


QWEN25_VL = Family(
    model_type="qwen2_5_vl",
    model_class="Qwen2_5_VLForConditionalGeneration",
    coordinate_space=CoordinateSpace.PIXEL_RESIZED,
    patch_size=14,
    merge_size=2,
    image_token="<|image_pad|>",
    vision_tokens=(
        "<|vision_start|>",
        "<|vision_end|>",
        "<|vision_pad|>",
        "<|image_pad|>",
        "<|video_pad|>",
    ),
    vision_prefix="model.visual.",
    projector_prefix="model.visual.merger.",
    decoder_layers="model.language_model.layers",
    vision_blocks="model.visual.blocks",
    adapter_targets=("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"),
)

FAMILIES: dict[str, Family] = {family.model_type: family for family in (QWEN25_VL,)}


def family_of(model_type: str, where: str) -> Family:
    """The family that a checkpoint's `model_type` names."""
    if model_type not in FAMILIES:
        raise UserError(
            f"{where}: model_type {model_type!r} is not a known family; known: {', '.join(sorted(FAMILIES))}"
        )
    return FAMILIES[model_type]
