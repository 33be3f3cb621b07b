"""`model.train_last_layers`: only the end of the language model learns.

Of the language model, the last N decoder layers, the final norm and the head keep their gradients; the first
layers and the word embeddings lose theirs. A head tied to the embeddings is the embeddings, and stays as it
is. Vision tower and projector are no part of the language model: model.freeze_vision and
model.freeze_projector decide about them.
"""

from __future__ import annotations

from typing import Any

from groundrl.errors import ConfigError
from groundrl.models.family import Family

HEAD = "lm_head."


def keep_last(model: Any, family: Family, count: int) -> None:
    """Freeze the language model but for its last `count` layers, norm and head. Raises ConfigError when it
    has fewer layers."""
    layers = len(model.get_submodule(family.decoder_layers))
    if count > layers:
        raise ConfigError(
            "model.train_last_layers",
            f"the language model has {layers} decoder layers",
            got=count,
            todo=f"use at most {layers}, or null for all that learns by default",
        )
    norm = f"{family.decoder_layers.removesuffix('.layers')}.norm."
    kept = (norm, HEAD, *(f"{family.decoder_layers}.{n}." for n in range(layers - count, layers)))
    apart = (family.vision_prefix, *family.projectors)
    for name, parameter in model.named_parameters():
        if not name.startswith((*apart, *kept)):
            parameter.requires_grad_(False)
