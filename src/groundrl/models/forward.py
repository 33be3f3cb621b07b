"""The learner's forward pass over rows of unequal length: each image encoded once, logits only where a
completion token is predicted.

Rows are padded on the right. Attention is causal, so no real token can see padding and no mask is needed;
positions (M-RoPE) are computed per row from its own images, so padding cannot shift them either.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from groundrl.models.family import family_of
from groundrl.models.sharding import is_sharded
from groundrl.types import PreparedImage

CHANNELS = 3


@dataclass(slots=True, kw_only=True)
class Row:
    """A prompt and its completion; `completion` may be empty (prefill)."""

    prompt: NDArray[np.int64]
    images: tuple[PreparedImage, ...]
    completion: NDArray[np.int64]


@dataclass(slots=True, kw_only=True)
class Packed:
    """Tensors of a batch of rows. B rows, L the longest, C the longest completion.

    input_ids [B, L], positions [3, B, L], patches [n, d] and grids [i, 3] of the distinct images,
    slots (row, column) [s] of every image token and feature_index [s] into the distinct images' features,
    targets [B, C] completion ids and target_mask [B, C], columns [B, C] where each is predicted.
    """

    input_ids: Tensor
    positions: Tensor
    patches: Tensor | None
    grids: Tensor | None
    slots: tuple[Tensor, Tensor]
    feature_index: Tensor
    targets: Tensor
    target_mask: Tensor
    columns: Tensor


class PositionCache:
    """Positions of prompts, computed once for the completions that share a prompt; without M-RoPE the three
    rows are equal."""

    def __init__(self, model: Any) -> None:
        self._inner = model.model
        self._mrope = family_of(model.config.model_type, "the model").mrope
        self._image_id = int(model.config.image_token_id)
        self._known: dict[tuple[int, int], Tensor] = {}
        self._keep: list[object] = []

    def of(self, ids: NDArray[np.int64], images: tuple[PreparedImage, ...]) -> Tensor:
        """Positions [3, len(ids)] of one unpadded row."""
        if not self._mrope:
            return torch.arange(len(ids)).expand(3, -1)
        key = (id(ids), id(images))
        if key not in self._known:
            row = torch.from_numpy(ids)[None]
            grids = torch.tensor([image.grid_thw for image in images]) if images else None
            kinds = (row == self._image_id).int()
            self._known[key] = self._inner.get_rope_index(row, kinds, image_grid_thw=grids)[0][:, 0]
            self._keep += [ids, images]
        return self._known[key]


def pack(rows: Sequence[Row], model: Any, *, pad_id: int, device: torch.device) -> Packed:
    """Collate rows; raises ValueError for an empty batch and for a row whose image tokens are not those of
    its images."""
    if not rows:
        raise ValueError("pack: no rows")
    image_id = int(model.config.image_token_id)
    merge = family_of(model.config.model_type, "the model").merge_size ** 2
    cache = PositionCache(model)
    lengths = [len(row.prompt) + len(row.completion) for row in rows]
    longest, most = max(lengths), max(1, *(len(row.completion) for row in rows))
    ids = np.full((len(rows), longest), pad_id, dtype=np.int64)
    positions = torch.zeros(3, len(rows), longest, dtype=torch.long)
    targets = np.full((len(rows), most), pad_id, dtype=np.int64)
    columns = np.zeros((len(rows), most), dtype=np.int64)
    mask = np.zeros((len(rows), most), dtype=bool)
    images: list[PreparedImage] = []
    offsets: dict[int, int] = {}
    total = 0
    slot_rows: list[NDArray[np.int64]] = []
    slot_columns: list[NDArray[np.int64]] = []
    features: list[NDArray[np.int64]] = []
    for b, row in enumerate(rows):
        check_images(b, row, image_id, merge)
        p, c = len(row.prompt), len(row.completion)
        ids[b, :p] = row.prompt
        ids[b, p : p + c] = row.completion
        if (row.completion == image_id).any():
            positions[:, b, : p + c] = cache.of(ids[b, : p + c], row.images)
        else:
            prompt_positions = cache.of(row.prompt, row.images)
            positions[:, b, :p] = prompt_positions
            positions[:, b, p : p + c] = prompt_positions.max() + 1 + torch.arange(c)
        targets[b, :c] = row.completion
        columns[b, :c] = np.arange(p - 1, p + c - 1)
        mask[b, :c] = True
        for image in row.images:
            if id(image) not in offsets:
                offsets[id(image)] = total
                total += int(np.prod(image.grid_thw)) // merge
                images.append(image)
        places = np.flatnonzero(ids[b, : p + c] == image_id)
        slot_rows.append(np.full(len(places), b, dtype=np.int64))
        slot_columns.append(places)
        features += [
            np.arange(start, start + int(np.prod(image.grid_thw)) // merge)
            for image in row.images
            for start in (offsets[id(image)],)
        ]
    feature_index = np.concatenate([*features, np.zeros(0, dtype=np.int64)])
    return Packed(
        input_ids=torch.from_numpy(ids).to(device),
        positions=positions.to(device),
        patches=torch.from_numpy(np.concatenate([i.patches for i in images])).to(device) if images else None,
        grids=torch.tensor([i.grid_thw for i in images], device=device) if images else None,
        slots=(
            torch.from_numpy(np.concatenate(slot_rows)).to(device),
            torch.from_numpy(np.concatenate(slot_columns)).to(device),
        ),
        feature_index=torch.from_numpy(feature_index).to(device),
        targets=torch.from_numpy(targets).to(device),
        target_mask=torch.from_numpy(mask).to(device),
        columns=torch.from_numpy(columns).to(device),
    )


def check_images(number: int, row: Row, image_id: int, merge: int) -> None:
    """Raise ValueError unless every run of image tokens is as long as its image's features.

    Equal sums would hide a swap.
    """
    places = np.flatnonzero(np.concatenate([row.prompt, row.completion]) == image_id)
    found = [len(run) for run in np.split(places, np.flatnonzero(np.diff(places) > 1) + 1) if len(run)]
    wanted = [int(np.prod(image.grid_thw)) // merge for image in row.images]
    if found != wanted:
        raise ValueError(f"pack: row {number} holds runs of {found} image tokens for images of {wanted}")


def image_features(model: Any, packed: Packed) -> Tensor | None:
    """Vision features of the distinct images, [tokens, hidden]."""
    if packed.patches is None:
        return None
    if family_of(model.config.model_type, "the model").tiled:
        side = math.isqrt(packed.patches.shape[1] // CHANNELS)
        tiles = packed.patches.view(-1, CHANNELS, side, side)
        return model.model.get_image_features(tiles).pooler_output.flatten(0, 1)
    return torch.cat(model.model.get_image_features(packed.patches, packed.grids).pooler_output)


def embed(model: Any, packed: Packed, features: Tensor | None) -> Tensor:
    """Input embeddings [B, L, hidden] with image features in their places."""
    embeds = model.get_input_embeddings()(packed.input_ids)
    if features is None or packed.feature_index.numel() == 0:
        return embeds + _untouched(model, embeds) if is_sharded(model) else embeds
    return embeds.index_put(packed.slots, features[packed.feature_index].to(embeds.dtype))


def _untouched(model: Any, embeds: Tensor) -> Tensor:
    """Nothing, by way of the vision tower: where it is sharded all processes must run it, or those that have
    images wait for ever for those that have none."""
    vision = model.config.vision_config
    if family_of(model.config.model_type, "the model").tiled:
        height, width = vision.image_size
        features = model.model.get_image_features(embeds.new_zeros(1, CHANNELS, height, width)).pooler_output
        return 0.0 * features.sum()
    side = int(vision.spatial_merge_size)
    width = CHANNELS * int(vision.temporal_patch_size) * int(vision.patch_size) ** 2
    patches = embeds.new_zeros(side * side, width)
    grid = torch.tensor([[1, side, side]], device=embeds.device)
    made = model.model.get_image_features(patches, grid)
    deep = [part for level in getattr(made, "deepstack_features", None) or () for part in level]
    return 0.0 * torch.stack([part.sum() for part in (*made.pooler_output, *deep)]).sum()


def decoder_inputs(model: Any, packed: Packed) -> dict[str, Any]:
    """What the language model is called with: `inputs_embeds` [B, L, hidden] and, where the family has
    deepstack and the batch images, `visual_pos_masks` [B, L] and `deepstack_visual_embeds`, a list of
    [s, hidden] in the order of the mask (DeepStack, Meng et al. 2024, section 3)."""
    if packed.patches is None:
        return {"inputs_embeds": embed(model, packed, None)}
    if not family_of(model.config.model_type, "the model").deepstack:
        return {"inputs_embeds": embed(model, packed, image_features(model, packed))}
    made = model.model.get_image_features(packed.patches, packed.grids)
    mask = torch.zeros_like(packed.input_ids, dtype=torch.bool)
    mask[packed.slots] = True
    return {
        "inputs_embeds": embed(model, packed, torch.cat(made.pooler_output)),
        "visual_pos_masks": mask,
        "deepstack_visual_embeds": [
            torch.cat(level)[packed.feature_index] for level in made.deepstack_features
        ],
    }


def place(model: Any, positions: Tensor) -> Tensor:
    """Positions [3, B, L] in the shape that the language model takes: [B, L] without M-RoPE."""
    return positions if family_of(model.config.model_type, "the model").mrope else positions[0]


def hidden_states(model: Any, packed: Packed, **attention: Any) -> Tensor:
    """Last hidden states [B, L, hidden]; `attention` reaches the attention functions of every layer."""
    return model.model.language_model(
        **decoder_inputs(model, packed),
        position_ids=place(model, packed.positions),
        attention_mask=None,
        use_cache=False,
        **attention,
    ).last_hidden_state


def completion_logits(model: Any, packed: Packed) -> Tensor:
    """Logits [B, C, V] that predict each completion token."""
    hidden = hidden_states(model, packed)
    index = packed.columns[..., None].expand(-1, -1, hidden.shape[-1])
    return model.lm_head(hidden.gather(1, index))
