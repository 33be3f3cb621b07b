"""Rows that share a prompt packed into one row, so that prompt and vision tower are computed once a group.

Rows are one group when their prompt ids are equal and the prompt's images are the same objects; this is also
what joins the segments of a rollout that begin alike. Every other row is a group of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from groundrl.models.family import family_of
from groundrl.models.forward import Packed, PositionCache, Row, check_images, hidden_states
from groundrl.models.prefix_attention import ARGUMENT, PLUGGED, plug_in
from groundrl.models.prefix_layout import Layout, build_layout
from groundrl.types import PreparedImage


def obstacle(model: Any) -> str | None:
    """Why this model cannot run packed groups as it stands (device, precision, mode); None when it can."""
    text = model.config.get_text_config()
    kinds = set(getattr(text, "layer_types", None) or ()) - {"full_attention"}
    if kinds:
        return f"layers of kind {', '.join(sorted(kinds))}"
    if text._attn_implementation not in PLUGGED:
        return f"attention implementation {text._attn_implementation}"
    if model.training and getattr(text, "attention_dropout", 0.0):
        return "dropout in attention"
    weight = next(model.parameters())
    if weight.is_cuda and weight.dtype not in (torch.bfloat16, torch.float16):
        return f"{str(weight.dtype).removeprefix('torch.')} on CUDA, which flash attention does not take"
    return None


def group_rows(rows: Sequence[Row], model: Any) -> list[list[int]]:
    """Numbers of the rows of each group: groups of equal prompt length side by side, longest completion
    first within a group."""
    image_id, merge = _image_facts(model)
    groups: dict[tuple[bytes, tuple[int, ...]], list[int]] = {}
    for number, row in enumerate(rows):
        images = _prompt_images(row, image_id, merge)
        key = (row.prompt.tobytes(), tuple(id(image) for image in images))
        groups.setdefault(key, []).append(number)
    found = [sorted(group, key=lambda number: -len(rows[number].completion)) for group in groups.values()]
    tokens = [sum(len(rows[number].completion) for number in group) for group in found]
    order = sorted(range(len(found)), key=lambda n: (len(rows[found[n][0]].prompt), tokens[n]))
    return [found[number] for number in order]


def pack_groups(
    rows: Sequence[Row], groups: Sequence[Sequence[int]], model: Any, *, pad_id: int, device: torch.device
) -> tuple[Packed, Layout]:
    """The packed row [1, T] and its layout; `columns`, `targets` and `target_mask` stay [B, C], by row.

    Raises ValueError where `pack` does, and for an empty prompt.
    """
    image_id, merge = _image_facts(model)
    for number, row in enumerate(rows):
        check_images(number, row, image_id, merge)
        if len(row.prompt) == 0:
            raise ValueError(f"pack_groups: row {number} has an empty prompt")
    cache = PositionCache(model)
    layout = build_layout(
        [(len(rows[group[0]].prompt), [len(rows[n].completion) for n in group]) for group in groups], device
    )
    images = {id(image): image for row in rows for image in row.images}
    sizes = [int(np.prod(image.grid_thw)) // merge for image in images.values()]
    first = dict(zip(images, np.cumsum([0, *sizes]).tolist(), strict=False))

    def features(row: Row) -> NDArray[np.int64]:
        """Place of every image token of a row among the distinct images' features."""
        runs = [
            first[id(image)] + np.arange(int(np.prod(image.grid_thw)) // merge, dtype=np.int64)
            for image in row.images
        ]
        return np.concatenate([*runs, np.zeros(0, dtype=np.int64)])

    heads = [rows[group[0]] for group in groups]
    prompt_positions = [cache.of(head.prompt, _prompt_images(head, image_id, merge)) for head in heads]
    ids = [head.prompt for head in heads]
    positions = [*prompt_positions]
    places = [features(head)[: int((head.prompt == image_id).sum())] for head in heads]
    most = max(1, *(len(row.completion) for row in rows))
    targets = np.full((len(rows), most), pad_id, dtype=np.int64)
    columns = np.zeros((len(rows), most), dtype=np.int64)
    mask = np.zeros((len(rows), most), dtype=bool)
    prompt_end, start = 0, layout.prompt_tokens
    for group, known in zip(groups, prompt_positions, strict=True):
        prompt = len(rows[group[0]].prompt)
        prompt_end += prompt
        for number in group:
            row = rows[number]
            c = len(row.completion)
            ids.append(row.completion)
            if (row.completion == image_id).any():
                whole = np.concatenate([row.prompt, row.completion])
                positions.append(cache.of(whole, row.images)[:, prompt:])
                places.append(features(row)[int((row.prompt == image_id).sum()) :])
            else:
                positions.append(known.max() + 1 + torch.arange(c).expand(3, c))
            if c:
                targets[number, :c] = row.completion
                columns[number, :c] = np.arange(start - 1, start + c - 1)
                columns[number, 0] = prompt_end - 1
                mask[number, :c] = True
            start += c
    input_ids = np.concatenate(ids)
    slots = np.flatnonzero(input_ids == image_id)
    patches = [image.patches for image in images.values()]
    grids = [image.grid_thw for image in images.values()]
    packed = Packed(
        input_ids=torch.from_numpy(input_ids)[None].to(device),
        positions=torch.cat(positions, dim=1)[:, None].to(device),
        patches=torch.from_numpy(np.concatenate(patches)).to(device) if patches else None,
        grids=torch.tensor(grids, device=device) if grids else None,
        slots=(torch.zeros(len(slots), dtype=torch.long, device=device), torch.from_numpy(slots).to(device)),
        feature_index=torch.from_numpy(np.concatenate([*places, np.zeros(0, dtype=np.int64)])).to(device),
        targets=torch.from_numpy(targets).to(device),
        target_mask=torch.from_numpy(mask).to(device),
        columns=torch.from_numpy(columns).to(device),
    )
    return packed, layout


def shared_hidden_states(model: Any, packed: Packed, layout: Layout) -> Tensor:
    """Last hidden states [1, T, hidden] of a packed row."""
    plug_in()
    before = layout.calls
    hidden = hidden_states(model, packed, **{ARGUMENT: layout})
    layers = int(model.config.get_text_config().num_hidden_layers)
    if layout.calls - before != layers:
        raise RuntimeError(
            f"shared prefix: {layout.calls - before} of {layers} layers got the layout; this model class "
            "does not hand keyword arguments to its attention: set algorithm.optim.shared_prefix=off"
        )
    return hidden


def _image_facts(model: Any) -> tuple[int, int]:
    """(image token id, patches merged into one image token)."""
    family = family_of(model.config.model_type, "the model")
    return int(model.config.image_token_id), family.merge_size**2


def _prompt_images(row: Row, image_id: int, merge: int) -> tuple[PreparedImage, ...]:
    """The images whose tokens stand in the prompt; the others belong to the response."""
    wanted, found = int((row.prompt == image_id).sum()), 0
    for number, image in enumerate(row.images):
        if found >= wanted:
            return row.images[:number]
        found += int(np.prod(image.grid_thw)) // merge
    return row.images
