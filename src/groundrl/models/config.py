"""Settings of the policy: which checkpoint, in which precision, and which parts learn."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from groundrl.config.registry import register
from groundrl.errors import ConfigError


class Precision(StrEnum):
    float32 = "float32"
    bfloat16 = "bfloat16"


class Attention(StrEnum):
    sdpa = "sdpa"
    eager = "eager"
    flash_attention_2 = "flash_attention_2"


class Device(StrEnum):
    """auto: cuda where there is one, else cpu."""

    auto = "auto"
    cpu = "cpu"
    cuda = "cuda"


@dataclass(kw_only=True, slots=True)
class LoraConfig:
    """Low-rank adapters on the language model's linear layers. rank 0: none, all weights learn.

    Published (VLM-R1's script): rank 64, alpha 128, dropout 0.05, vision tower frozen.
    """

    rank: int = 0
    alpha: int = 128
    dropout: float = 0.05

    def __post_init__(self) -> None:
        if self.rank < 0:
            raise ConfigError("rank", "must be >= 0", got=self.rank, todo="use 0 for no adapters")
        if self.alpha < 1:
            raise ConfigError("alpha", "must be >= 1", got=self.alpha, todo="use 2 * rank")
        if not 0 <= self.dropout < 1:
            raise ConfigError("dropout", "must lie in [0, 1)", got=self.dropout, todo="use 0.05")


@register("model", "hf")
@dataclass(kw_only=True, slots=True)
class ModelConfig:
    """A Hugging Face vision-language model.

    path                    checkpoint folder (safetensors, tokenizer, image processor)
    init_from               another folder to start the weights from (null: those of `path`)
    architecture            config.json that `debug=plan` builds on the meta device when `path` is absent
    min_pixels, max_pixels  an image is resized so that its area lies between them; a family with tiles cuts
                            at most max_pixels / (pixels of a tile) of them, at least one
    train_last_layers       of the language model, only so many last decoder layers, the final norm and the
                            head learn (models/last_layers.py); null: all of it
    references              checkpoints evaluated on the same samples at the end, by the name in the table
    """

    path: str = "???"
    init_from: str | None = None
    architecture: str | None = None
    precision: Precision = Precision.float32
    attention: Attention = Attention.sdpa
    device: Device = Device.auto
    min_pixels: int = 3136
    max_pixels: int = 50176
    freeze_vision: bool = False
    freeze_projector: bool = False
    train_last_layers: int | None = None
    gradient_checkpointing: bool = False
    lora: LoraConfig = field(default_factory=LoraConfig)
    references: dict[str, str] = field(default_factory=dict[str, str])

    def __post_init__(self) -> None:
        if not 784 <= self.min_pixels <= self.max_pixels:
            raise ConfigError(
                "min_pixels",
                f"must lie in [784, max_pixels = {self.max_pixels}]",
                got=self.min_pixels,
                todo="784 is one image token of 28 x 28",
            )
        if self.train_last_layers is not None:
            self._check_last_layers(self.train_last_layers)

    def _check_last_layers(self, count: int) -> None:
        key = "train_last_layers"
        if count < 1:
            raise ConfigError(key, "must be >= 1 or null", got=count, todo="use null for all layers")
        if self.lora.rank:
            problem = "with model.lora.rank > 0 only the adapters learn, in all layers"
            raise ConfigError(key, problem, got=count, todo="leave one of the two out")
