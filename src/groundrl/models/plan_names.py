"""An architecture without weights: do the names that freezing, adapters and sharding use exist in it?"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import transformers

from groundrl.errors import ConfigError, UserError
from groundrl.models.family import Family, family_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Units:
    """Sharding units of a model in parameters: the two kinds of blocks together, the largest single block,
    and everything else, which is one unit (`root`)."""

    decoder_blocks: int
    decoder: int
    vision_blocks: int
    vision: int
    largest: int
    root: int


def read_family(file: Path, key: str) -> tuple[dict[str, Any], Family]:
    """(settings, family) of a config.json. Raises ConfigError, and UserError for an unknown family."""
    try:
        settings: dict[str, Any] = json.loads(file.read_text("utf-8"))
        model_type = settings["model_type"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        problem = f"cannot be read as a model's configuration ({type(error).__name__})"
        raise ConfigError(key, problem, got=str(file), todo="give a checkpoint's config.json") from None
    return settings, family_of(model_type, str(file))


def build_meta(file: Path, key: str) -> tuple[Any, Family]:
    """The model that `file` (a config.json) describes, on the meta device. Raises ConfigError."""
    settings, family = read_family(file, key)
    model_class: Any = getattr(transformers, family.model_class)
    with torch.device("meta"):
        return model_class(model_class.config_class.from_dict(settings)), family


def check_names(model: Any, family: Family) -> tuple[int, int]:
    """Look every name of the family up in a model without adapters; parameters of (tower, projector).

    Raises UserError naming the first that is missing.
    """
    blocks = _blocks(model, family.decoder_layers)
    for number, (block, kind) in enumerate(zip(blocks, layer_kinds(model, len(blocks)), strict=True)):
        leaves = [name.rpartition(".")[2] for name, module in block.named_modules() if _is_linear(module)]
        for target in family.targets_of(kind):
            if leaves.count(target) != 1:
                raise UserError(
                    f"{family.decoder_layers}.{number} has {leaves.count(target)} linear layers named "
                    f"{target}, not one; LoRA's targets in models/family.py do not fit this architecture"
                )
    counts: list[int] = []
    for prefix in (family.vision_prefix, *family.projectors):
        outside = family.projectors if prefix == family.vision_prefix else ()
        counts.append(
            sum(
                p.numel()
                for name, p in model.named_parameters()
                if name.startswith(prefix) and not name.startswith(outside)
            )
        )
        if not counts[-1]:
            raise UserError(f"no parameter is named {prefix}*; freezing in models/family.py does not fit")
    return counts[0], sum(counts[1:])


def find_units(model: Any, family: Family) -> Units:
    """The sharding units. Raises UserError when the blocks are not where the family says, or not as many as
    the configuration says."""
    decoder, vision = _blocks(model, family.decoder_layers), _blocks(model, family.vision_blocks)
    for path, blocks, expected in (
        (family.decoder_layers, decoder, model.config.text_config.num_hidden_layers),
        (family.vision_blocks, vision, vision_depth(model.config.vision_config)),
    ):
        if len(blocks) != expected:
            raise UserError(f"{path} holds {len(blocks)} blocks, the configuration says {expected}")
    in_decoder, in_vision = sum(map(_count, decoder)), sum(map(_count, vision))
    return Units(
        decoder_blocks=len(decoder),
        decoder=in_decoder,
        vision_blocks=len(vision),
        vision=in_vision,
        largest=max(map(_count, [*decoder, *vision])),
        root=_count(model) - in_decoder - in_vision,
    )


def layer_kinds(model: Any, layers: int) -> list[str]:
    """Kind of each decoder layer; a text configuration that names none has attention in all of them."""
    return list(getattr(model.config.get_text_config(), "layer_types", None) or ["full_attention"] * layers)


def vision_depth(config: Any) -> int:
    """Blocks of the vision tower; families name the number differently."""
    return int(config.depth if hasattr(config, "depth") else config.num_hidden_layers)


def check_adapters(model: Any, family: Family) -> None:
    """After `inject`: adapters on every target of every decoder layer and nowhere else. Raises UserError."""
    owners = {name.partition(".lora_")[0] for name, _ in model.named_parameters() if ".lora_" in name}
    kinds = layer_kinds(model, len(model.get_submodule(family.decoder_layers)))
    meant = sum(len(family.targets_of(kind)) for kind in kinds)
    outside = sorted(name for name in owners if not name.startswith(f"{family.decoder_layers}."))
    if outside or len(owners) != meant:
        raise UserError(
            f"{len(owners)} layers got adapters, {meant} were meant"
            + (f"; outside the decoder: {outside[0]}" if outside else "")
        )


def _blocks(model: Any, path: str) -> list[Any]:
    try:
        return list(model.get_submodule(path))
    except (AttributeError, TypeError):
        raise UserError(
            f"the model has no list of blocks {path}; sharding in models/family.py does not fit"
        ) from None


def _is_linear(module: Any) -> bool:
    return isinstance(module, torch.nn.Linear)


def _count(module: Any) -> int:
    return sum(p.numel() for p in module.parameters())
