"""`debug=plan` of the families beside Qwen2.5-VL: published counts, layers with a state, tiles."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.unit.models.test_plan import ARCHITECTURES, by_name, load, sizes

from groundrl.config.compose import compose_run
from groundrl.errors import UserError
from groundrl.learner.algorithms import GRPOConfig
from groundrl.models.family import FAMILIES
from groundrl.models.plan import sizes_of
from groundrl.models.plan_memory import decoder_elements, drawing
from groundrl.models.plan_names import build_meta, check_names, find_units
from groundrl.training.plan import load_of
from groundrl.training.plan import plan as run_plan

QWEN35_9B = 9_653_104_368 - (2 * 4096**2 + 3 * 4096 * 12288 + 58_720_256 + 2 * 256 + 5 * 4096)
"""The published checkpoint without its head for several tokens, which transformers does not load: a
projection of two hidden states, a decoder layer with attention (MLP; q with its gate, k, v and o: 4096 x
(2 x 4096 + 2 x 1024 + 4096); norms of q and k), two norms of the layer, two of the
inputs, one of the output."""


@pytest.mark.parametrize(
    ("name", "parameters"),
    [("qwen3.5-9b", QWEN35_9B), ("internvl3-8b", 7_944_373_760), ("qwen3-vl-4b", 4_437_815_808)],
)
def test_parameter_counts(name: str, parameters: int) -> None:
    model, family = build_meta(ARCHITECTURES / f"{name}.json", "model.architecture")
    assert sum(p.numel() for p in model.parameters()) == parameters
    check_names(model, family)


def test_layers_with_a_state_are_counted_apart() -> None:
    model, family = build_meta(ARCHITECTURES / "qwen3.5-9b.json", "model.architecture")
    found = sizes_of(model, family, find_units(model, family))
    # every fourth of 32 layers has attention
    assert (found.layers, found.recurrent_layers) == (32, 24)
    # 32 value heads of 128 x 128; 2 x 16 x 128 + 32 x 128 = 8192 channels, four inputs of each
    assert found.recurrent_state == 32 * 128 * 128 + 8192 * 4
    # channels in and out, queries and keys of 32 heads, three times the values
    assert found.recurrent_elements == 2 * 8192 + 2 * 32 * 128 + 3 * 4096
    assert decoder_elements(found) == 4 * 4096 + found.recurrent_elements + 4 * 12288
    with pytest.raises(UserError, match=r"layers\.0 has 0 linear layers named q_proj, not one"):
        check_names(model, replace(family, recurrent_targets=family.adapter_targets))


def test_only_layers_with_attention_keep_keys_and_values() -> None:
    """10 layers of which 7 have a state of 50; 7 rows of 25 tokens, keys and values of 4."""
    found = by_name(drawing(sizes(recurrent_layers=7, recurrent_elements=9, recurrent_state=50), load()))
    assert found == {"key-value cache": 2 * 2 * 3 * 4 * 7 * 25, "recurrent states": 4 * 7 * 7 * 50}
    # what a small state saves is less than attention does (3 x 16 + 4 x 4)
    assert decoder_elements(sizes(recurrent_elements=9)) == decoder_elements(sizes())


def test_every_completion_computes_its_prompt_where_layers_have_a_state() -> None:
    config = compose_run(["model=qwen35_9b", "debug=plan"])
    own = load_of(config, FAMILIES["qwen3_5"])
    assert isinstance(config.algorithm, GRPOConfig)
    assert (own.rows, own.prompts, own.images) == (4, 4, 1)
    assert load_of(config, FAMILIES["qwen3_vl"]).prompts == 1


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (
            "model=qwen35_9b model.lora.rank=8",
            "each of 8 decoder layers with attention|each of 24 decoder layers with a recurrent state|"
            "in_proj_qkv, in_proj_z, out_proj, gate_proj|recurrent states",
        ),
        # 1280 x 28 x 28 pixels hold 5 tiles of 448 x 448; with the thumbnail 6 x 256 tokens x 4 patches
        ("model=internvl3", "7,944,373,760|each of 28 decoder layers, none|6,144 patches"),
        ("model=internvl3 model.max_pixels=200704", "1,024 patches"),
    ],
)
def test_the_plan_without_weights(words: str, expected: str) -> None:
    text = run_plan(compose_run([*words.split(), "debug=plan"]))
    for part in expected.split("|"):
        assert part in text
