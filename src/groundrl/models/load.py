"""Loads a checkpoint folder: model, processor and what identifies it. safetensors only, no remote code."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import transformers
from transformers import AutoTokenizer
from transformers.models.got_ocr2.image_processing_pil_got_ocr2 import GotOcr2ImageProcessorPil
from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import Qwen2VLImageProcessorPil

from groundrl.config.repo import resolve
from groundrl.errors import ConfigError
from groundrl.models.config import Attention, Device, ModelConfig, Precision
from groundrl.models.family import Family, family_of
from groundrl.models.last_layers import keep_last
from groundrl.models.lora import inject
from groundrl.models.processor import Processor
from groundrl.world import World

transformers.utils.logging.disable_progress_bar()

NEEDED = ("config.json", "tokenizer.json", "preprocessor_config.json")


@dataclass(slots=True, kw_only=True)
class Policy:
    """A model with its processor; `fingerprint` is the SHA-256 of the weight files it started from."""

    model: Any
    processor: Processor
    family: Family
    fingerprint: str


def pick_device(config: ModelConfig) -> torch.device:
    """cpu or cuda, as asked and as there is."""
    cuda = torch.cuda.is_available()
    if config.device is Device.cuda and not cuda:
        raise ConfigError("model.device", "no CUDA device was found", got="cuda", todo="use model.device=cpu")
    name = "cuda" if cuda and config.device is not Device.cpu else "cpu"
    if config.attention is Attention.flash_attention_2 and name == "cpu":
        raise ConfigError(
            "model.attention",
            "flash attention needs a CUDA device and none was found",
            got=str(config.attention),
            todo="run on a GPU machine, or use model.attention=sdpa model.precision=float32 on a CPU",
        )
    world = World.of()
    return torch.device(name if world.alone or name == "cpu" else f"cuda:{world.local_rank}")


def check_folder(path: str, key: str) -> Path:
    """The folder of a checkpoint; raises ConfigError naming the files that are missing."""
    folder = resolve(path)
    gpu = "" if torch.cuda.is_available() else " (this machine also has no CUDA device)"
    if not folder.is_dir():
        raise ConfigError(
            key,
            f"the checkpoint folder does not exist{gpu}",
            got=path,
            todo=f"put config.json, *.safetensors, tokenizer.json and preprocessor_config.json into {path}, "
            f"or give {key}=FOLDER",
        )
    missing = [name for name in NEEDED if not (folder / name).is_file()]
    if not list(folder.glob("*.safetensors")):
        missing.append("*.safetensors")
    if not _has_template(folder):
        missing.append("chat_template.jinja")
    if missing:
        raise ConfigError(
            key, f"the checkpoint folder lacks {', '.join(missing)}", got=path, todo="copy them there"
        )
    return folder


def _has_template(folder: Path) -> bool:
    """Whether a chat template lies in the folder, in any of the places transformers has kept it."""
    if any((folder / name).is_file() for name in ("chat_template.jinja", "chat_template.json")):
        return True
    settings = folder / "tokenizer_config.json"
    return settings.is_file() and '"chat_template"' in settings.read_text("utf-8", errors="replace")


def fingerprint(folder: Path) -> str:
    """SHA-256 over the weight files of a folder, in order of their names."""
    digest = hashlib.sha256()
    for file in sorted(folder.glob("*.safetensors")):
        with file.open("rb") as stream:
            for block in iter(lambda: stream.read(1 << 20), b""):
                digest.update(block)
    return digest.hexdigest()


def load_processor(folder: Path, family: Family, config: ModelConfig) -> Processor:
    """Tokenizer and image processor of a folder, with this run's pixel limits."""
    tokenizer = AutoTokenizer.from_pretrained(str(folder), trust_remote_code=False)
    template = folder / "chat_template.json"
    if tokenizer.chat_template is None and template.is_file():
        tokenizer.chat_template = json.loads(template.read_text("utf-8"))["chat_template"]
    settings = json.loads((folder / "config.json").read_text("utf-8"))
    text = settings.get("text_config") or settings
    length = text.get("max_position_embeddings", settings.get("max_position_embeddings"))
    if family.tiled:
        return Processor(tokenizer, _tiling(folder, config), family, context_length=length)
    limits = {"shortest_edge": config.min_pixels, "longest_edge": config.max_pixels}
    image_processor = Qwen2VLImageProcessorPil.from_pretrained(str(folder), size=limits)
    sizes = (int(image_processor.patch_size), int(image_processor.merge_size))
    if sizes != (family.patch_size, family.merge_size):
        raise ConfigError(
            "model.path",
            f"preprocessor_config.json has patch and merge size {sizes}, the family {family.model_type} has "
            f"{(family.patch_size, family.merge_size)}",
            got=str(folder),
            todo="copy preprocessor_config.json from the original",
        )
    return Processor(tokenizer, image_processor, family, context_length=length)


def _tiling(folder: Path, config: ModelConfig) -> GotOcr2ImageProcessorPil:
    """At most as many tiles as `max_pixels` holds, at least one; several get a thumbnail of the whole."""
    made = GotOcr2ImageProcessorPil.from_pretrained(str(folder), crop_to_patches=True)
    made.max_patches = max(1, config.max_pixels // (made.size["height"] * made.size["width"]))
    return made


def load_policy(config: ModelConfig) -> Policy:
    """The policy of a run: weights of `init_from` if set, else of `path`; adapters and freezing applied."""
    folder = check_folder(config.path, "model.path")
    start = check_folder(config.init_from, "model.init_from") if config.init_from else folder
    device = pick_device(config)
    settings = json.loads((folder / "config.json").read_text("utf-8"))
    family = family_of(settings.get("model_type", ""), str(folder))
    model_class = getattr(transformers, family.model_class)
    model = model_class.from_pretrained(
        str(start),
        dtype=torch.float32 if config.precision is Precision.float32 else torch.bfloat16,
        attn_implementation=str(config.attention.value),
        trust_remote_code=False,
        use_safetensors=True,
    ).to(device)
    if config.gradient_checkpointing:
        model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    inject(model, family, config.lora)
    freeze_parts(model, family, config)
    return Policy(
        model=model,
        processor=load_processor(folder, family, config),
        family=family,
        fingerprint=fingerprint(start),
    )


def freeze_parts(model: Any, family: Family, config: ModelConfig) -> None:
    """Stop the gradients of all parts that the configuration freezes."""
    freeze(model, family, vision=config.freeze_vision, projector=config.freeze_projector)
    if config.train_last_layers is not None:
        keep_last(model, family, config.train_last_layers)


def freeze(model: Any, family: Family, *, vision: bool, projector: bool) -> None:
    """Stop the gradients of the vision tower and of the projector; raises when a name matches nothing.

    The projector lies inside the tower in the Qwen families; freezing the tower leaves it out.
    """
    wanted = {
        "freeze_vision": (vision, (family.vision_prefix,)),
        "freeze_projector": (projector, family.projectors),
    }
    for key, (on, prefixes) in wanted.items():
        if not on:
            continue
        hit = 0
        for name, parameter in model.named_parameters():
            inside = name.startswith(prefixes)
            if key == "freeze_vision" and name.startswith(family.projectors):
                inside = False
            if inside:
                parameter.requires_grad_(False)
                hit += 1
        if hit == 0:
            names = " or ".join(f"{prefix}*" for prefix in prefixes)
            raise ConfigError(f"model.{key}", f"no parameter is named {names}", todo="report the family")
