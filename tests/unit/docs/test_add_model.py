"""The code blocks of docs/howto/add_model.md do what the page says."""

from __future__ import annotations

import re
import sys
import types
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from hydra import compose

from groundrl.config.compose import composing
from groundrl.config.locate import located
from groundrl.config.registry import load_all
from groundrl.models.config import LoraConfig
from groundrl.models.family import FAMILIES, family_of
from groundrl.models.lora import inject
from groundrl.models.plan_names import check_adapters, check_names, find_units

PAGE = Path(__file__).resolve().parents[3] / "docs" / "howto" / "add_model.md"


def block(language: str) -> str:
    (text,) = re.findall(rf"```{language}\n(.*?)```", PAGE.read_text("utf-8"), flags=re.S)
    return text


def test_the_page_names_the_families_that_exist() -> None:
    (names,) = re.findall(r"family that is known \((.*?)\)", PAGE.read_text("utf-8"), flags=re.S)
    assert re.findall(r"`(\w+)`", names) == sorted(FAMILIES)


def test_the_declaration_fits_the_architecture(monkeypatch: pytest.MonkeyPatch) -> None:
    module = types.ModuleType("groundrl.models.families.qwen3_vl_moe")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    exec(compile(block("python"), str(PAGE), "exec"), module.__dict__)
    monkeypatch.setitem(FAMILIES, "qwen3_vl_moe", module.__dict__["QWEN3_VL_MOE"])
    family = family_of("qwen3_vl_moe", "here")
    model_class: Any = getattr(transformers, family.model_class)
    text = {
        "vocab_size": 64,
        "hidden_size": 64,
        "intermediate_size": 96,
        "moe_intermediate_size": 32,
        "num_experts": 4,
        "num_experts_per_tok": 2,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "num_key_value_heads": 1,
        "head_dim": 32,
        "rope_parameters": {"rope_type": "default", "rope_theta": 10.0, "mrope_section": [4, 6, 6]},
    }
    vision = {
        "depth": 2,
        "hidden_size": 32,
        "intermediate_size": 64,
        "num_heads": 2,
        "out_hidden_size": 64,
        "patch_size": family.patch_size,
        "deepstack_visual_indexes": [0, 1],
    }
    with torch.device("meta"):
        model = model_class(model_class.config_class(text_config=text, vision_config=vision))
    tower, projector = check_names(model, family)
    assert tower > 0
    assert projector > 0
    assert find_units(model, family).decoder_blocks == 2
    inject(model, family, LoraConfig(rank=4))
    check_adapters(model, family)


def test_the_option_composes(tmp_path: Path) -> None:
    load_all()
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "qwen3vl_moe.yaml").write_text(block("yaml"), encoding="utf-8")
    with composing():
        words = ["model=qwen3vl_moe", f"hydra.searchpath=[file://{tmp_path}]"]
        config = located(compose("config", overrides=words))
    assert config.model.path == "weights/Qwen3-VL-30B-A3B-Instruct"
    assert config.model.precision.value == "bfloat16"
