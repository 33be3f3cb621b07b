"""What differs between model families, as data: names, sizes, coordinate space."""

from __future__ import annotations

from dataclasses import dataclass

from groundrl.types import CoordinateSpace

QWEN_VISION_TOKENS = (
    "<|vision_start|>",
    "<|vision_end|>",
    "<|vision_pad|>",
    "<|image_pad|>",
    "<|video_pad|>",
)
DECODER_LINEARS = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")
RECURRENT = "linear_attention"
"""The kind (`layer_types` of a text configuration) of decoder layers that carry a recurrent state."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """One model family.

    coordinate_space   the space its boxes are written in
    patch_size         side of a vision patch in pixels; an image token covers patch_size * merge_size
    vision_tokens      placeholder tokens a policy must never sample
    vision_prefix      parameter-name prefix of the vision tower
    projector_prefix   parameter-name prefix of the module that maps vision features to the language model
    more_projectors    prefixes of further such modules
    mrope              positions are (time, height, width); else one number a token
    tiled              images become square tiles; a row of the patch matrix is one tile
    image_start, image_end   written around an image's tokens where the chat template does not
    deepstack          the tower also returns features of inner blocks, added behind the first decoder layers
    decoder_layers, vision_blocks   module paths of the repeated blocks (sharding units)
    adapter_targets    linear layers of a decoder layer that LoRA adapts
    recurrent_targets  the same for decoder layers of kind RECURRENT; empty where the family has none
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
    recurrent_targets: tuple[str, ...] = ()
    more_projectors: tuple[str, ...] = ()
    mrope: bool = True
    tiled: bool = False
    image_start: str = ""
    image_end: str = ""
    deepstack: bool = False

    @property
    def projectors(self) -> tuple[str, ...]:
        """Prefixes of everything between tower and language model."""
        return (self.projector_prefix, *self.more_projectors)

    @property
    def recurrent(self) -> bool:
        """Whether some decoder layers carry a recurrent state; prompts cannot be shared then."""
        return bool(self.recurrent_targets)

    @property
    def linears(self) -> tuple[str, ...]:
        """Names of all linear layers that LoRA adapts, of either kind of decoder layer."""
        return tuple(dict.fromkeys((*self.adapter_targets, *self.recurrent_targets)))

    def targets_of(self, kind: str) -> tuple[str, ...]:
        """Linear layers that LoRA adapts in a decoder layer of this kind."""
        return self.recurrent_targets if kind == RECURRENT else self.adapter_targets

    def image_tokens(self, grid_thw: tuple[int, int, int]) -> int:
        """Language-model tokens of one image."""
        t, h, w = grid_thw
        return t * h * w // self.merge_size**2
