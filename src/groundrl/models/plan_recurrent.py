"""Sizes of decoder layers that carry a recurrent state: the gated delta rule behind a causal convolution
(Yang et al. 2024, section 3), as transformers lays Qwen3.5 out.

Saved per token, counted for fused kernels (transformers takes those of `flash-linear-attention` and
`causal-conv1d` where they are installed; its plain fallback keeps several times as much): the convolution's
input and output, queries and keys once repeated to the value heads, and the rule's result, its gate and their
product. Not compared with a measured step.
"""

from __future__ import annotations

from typing import Any

from groundrl.models.families.declaration import RECURRENT
from groundrl.models.plan_names import layer_kinds


def recurrent_sizes(model: Any) -> dict[str, int]:
    """The `recurrent_*` fields of `Sizes`; empty for a model without such layers.

    A state is value heads x key width x value width, and the last inputs of the convolution.
    """
    text = model.config.get_text_config()
    layers = layer_kinds(model, int(text.num_hidden_layers)).count(RECURRENT)
    if not layers:
        return {}
    heads = int(text.linear_num_value_heads)
    key_width, value_width = int(text.linear_key_head_dim), int(text.linear_value_head_dim)
    value = heads * value_width
    channels = 2 * int(text.linear_num_key_heads) * key_width + value
    return {
        "recurrent_layers": layers,
        "recurrent_elements": 2 * channels + 2 * heads * key_width + 3 * value,
        "recurrent_state": heads * key_width * value_width + channels * int(text.linear_conv_kernel_dim),
    }
