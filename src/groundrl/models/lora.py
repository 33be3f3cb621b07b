"""Low-rank adapters, placed inside the model so that module names and the engine's view stay the same."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from peft import LoraConfig as PeftConfig
from peft import inject_adapter_in_model
from peft.tuners.tuners_utils import BaseTunerLayer
from torch import Tensor

from groundrl.models.config import LoraConfig
from groundrl.models.family import Family

ADAPTER = "policy"


def inject(model: Any, family: Family, config: LoraConfig) -> None:
    """Add adapters to the language model's linear layers and freeze everything else; rank 0: nothing.

    The vision tower gets none (published: frozen under LoRA).
    """
    if config.rank == 0:
        return
    inject_adapter_in_model(peft_config(family, config), model, adapter_name=ADAPTER)
    for name, parameter in model.named_parameters():
        parameter.requires_grad_("lora_" in name)


def peft_config(family: Family, config: LoraConfig) -> PeftConfig:
    """The adapters as peft describes them."""
    pattern = rf"{family.decoder_layers.replace('.', r'[.]')}[.].*[.]({'|'.join(family.linears)})"
    return PeftConfig(
        r=config.rank, lora_alpha=config.alpha, lora_dropout=config.dropout, target_modules=pattern
    )


def has_adapters(model: Any) -> bool:
    return any(isinstance(module, BaseTunerLayer) for module in model.modules())


def adapter_state(model: Any) -> dict[str, Tensor]:
    """Adapter weights by parameter name."""
    return {name: value for name, value in model.state_dict().items() if "lora_" in name}


@contextlib.contextmanager
def adapters_off(model: Any) -> Iterator[None]:
    """The model as it was before adapters: the reference policy of a LoRA run."""
    layers = [module for module in model.modules() if isinstance(module, BaseTunerLayer)]
    for layer in layers:
        layer.enable_adapters(False)
    try:
        yield
    finally:
        for layer in layers:
            layer.enable_adapters(True)


def merged(model: Any) -> dict[str, Tensor]:
    """Plain weights with the adapters merged in, under the names a model without adapters has.

    The model is left alone: adding an adapter to its layer and taking it off again would leave rounding in
    the base weights, which are also the reference.
    """
    weights = {
        name.replace(".base_layer", ""): value
        for name, value in model.state_dict().items()
        if "lora_" not in name
    }
    for name, layer in model.named_modules():
        if isinstance(layer, BaseTunerLayer):
            key = f"{name}.weight"
            tuner: Any = layer
            delta = tuner.get_delta_weight(ADAPTER)
            weights[key] = weights[key] + delta.to(weights[key].dtype)
    return weights
