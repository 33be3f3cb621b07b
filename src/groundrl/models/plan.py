"""`debug=plan`: an architecture built without weights, its names checked, its memory per process counted."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from groundrl.config.repo import resolve
from groundrl.errors import ConfigError
from groundrl.models.config import ModelConfig
from groundrl.models.family import Family
from groundrl.models.load import freeze_parts
from groundrl.models.lora import inject
from groundrl.models.plan_memory import GIB, MIB, Item, Load, Sizes, drawing, learning, states
from groundrl.models.plan_names import (
    Units,
    build_meta,
    check_adapters,
    check_names,
    find_units,
    vision_depth,
)
from groundrl.models.plan_recurrent import recurrent_sizes

LIMIT = 80
"""GiB of the device that the plan is held against (A100, H100)."""


def plan(config: ModelConfig, load: Load) -> str:
    """The plan as text. Raises ConfigError without a configuration to build, UserError on a missing name."""
    file, key = config_file(config)
    model, family = build_meta(file, key)
    tower, projector = check_names(model, family)
    if load.trains:
        inject(model, family, config.lora)
        freeze_parts(model, family, config)
        if config.lora.rank:
            check_adapters(model, family)
    else:
        model.requires_grad_(False)
    units = find_units(model, family)
    sizes = sizes_of(model, family, units)
    return "\n".join(
        [
            f"plan for {file}, without weights",
            *_parameters(sizes, tower, projector),
            *_names(family, units, sizes),
            *_memory(sizes, load),
        ]
    )


def config_file(config: ModelConfig) -> tuple[Path, str]:
    """(config.json to build, the setting that names it): the checkpoint's own, else `model.architecture`."""
    own = resolve(config.path) / "config.json"
    if own.is_file():
        return own, "model.path"
    if config.architecture is None:
        raise ConfigError(
            "model.path",
            "has no config.json to plan with",
            got=config.path,
            todo="give a checkpoint folder, or model.architecture=FILE",
        )
    return resolve(config.architecture), "model.architecture"


def sizes_of(model: Any, family: Family, units: Units) -> Sizes:
    """Counts and widths of a built model, adapters and freezing applied."""
    text, vision = model.config.text_config, model.config.vision_config
    head = int(getattr(text, "head_dim", None) or text.hidden_size // text.num_attention_heads)
    # Qwen2-VL: hidden_size is the language model's, the tower's own widths are these
    width = int(getattr(vision, "embed_dim", None) or vision.hidden_size)
    inner = int(getattr(vision, "intermediate_size", None) or width * vision.mlp_ratio)
    parameters = list(model.named_parameters())
    return Sizes(
        parameters=sum(p.numel() for _, p in parameters),
        trainable=sum(p.numel() for _, p in parameters if p.requires_grad),
        root=units.root,
        largest=units.largest,
        layers=int(text.num_hidden_layers),
        hidden=int(text.hidden_size),
        query=head * int(text.num_attention_heads),
        key_value=head * int(text.num_key_value_heads),
        heads=int(text.num_attention_heads),
        intermediate=int(text.intermediate_size),
        vocabulary=int(text.vocab_size),
        vision_layers=vision_depth(vision),
        vision_hidden=width,
        vision_intermediate=inner,
        vision_trains=any(
            p.requires_grad
            for name, p in parameters
            if name.startswith(family.vision_prefix) and not name.startswith(family.projectors)
        ),
        **recurrent_sizes(model),
    )


def _parameters(sizes: Sizes, tower: int, projector: int) -> list[str]:
    rows = {
        "vision tower": tower,
        "projector": projector,
        "language model": sizes.parameters - tower - projector,
        "total": sizes.parameters,
        "learning": sizes.trainable,
    }
    return ["", "parameters", *(f"  {name:<22}{count:>18,}" for name, count in rows.items())]


def _names(family: Family, units: Units, sizes: Sizes) -> list[str]:
    decoder, vision, rest = (part / sizes.parameters for part in (units.decoder, units.vision, units.root))
    projectors = ", ".join(f"{prefix}*" for prefix in family.projectors)
    return [
        "",
        "names, all found",
        f"  freezing    {family.vision_prefix}* without the projector, {projectors}",
        *_adapters(family, sizes),
        f"  sharding    {units.decoder_blocks} x {family.decoder_layers} ({decoder:.1%} of all parameters)",
        f"              {units.vision_blocks} x {family.vision_blocks} ({vision:.1%}); rest ({rest:.1%})",
    ]


def _adapters(family: Family, sizes: Sizes) -> list[str]:
    recurrent = sizes.recurrent_layers
    kinds = [
        (family.adapter_targets, sizes.layers - recurrent, " with attention" if recurrent else ""),
        (family.recurrent_targets, recurrent, " with a recurrent state"),
    ]
    lines: list[str] = []
    for targets, count, kind in kinds:
        if count:
            lines.append(f"  adapters    {', '.join(targets)}")
            lines.append(f"              in each of {count} decoder layers{kind}, none in the vision tower")
    return lines


def _memory(sizes: Sizes, load: Load) -> list[str]:
    always, learn, draw = states(sizes, load), learning(sizes, load), drawing(sizes, load)
    total = _sum(always) + max(_sum(learn), _sum(draw))
    unit, name = (GIB, "GiB") if total >= GIB else (MIB, "MiB")
    processes = f"one of {load.ranks} processes" if load.ranks > 1 else "the one process"
    return [
        "",
        f"memory of {processes} under full sharding, {name}",
        *(_line(item, unit) for item in always),
        *(_line(item, unit, mark="~") for item in [*learn, *draw]),
        f"  {'total':<22}{total / unit:>10.2f}  always + the larger of learning and drawing",
        _verdict(total, always, learn if _sum(learn) >= _sum(draw) else draw),
        "~ is an estimate; gradients, moments and master weights are float32 (models/plan_memory.py)",
    ]


def _verdict(total: float, always: Sequence[Item], rest: Sequence[Item]) -> str:
    over = total / GIB - LIMIT
    if over <= 0:
        return f"fits into {LIMIT} GiB"
    largest = max((item for item in [*always, *rest] if item.lower), key=lambda item: item.bytes)
    return f"exceeds {LIMIT} GiB by {over:.2f}: most is {largest.name}; {largest.lower}"


def _line(item: Item, unit: int, mark: str = " ") -> str:
    return f"{mark} {item.name:<22}{item.bytes / unit:>10.2f}  {item.formula}"


def _sum(items: Sequence[Item]) -> float:
    return sum(item.bytes for item in items)
