"""What vLLM is given of families that differ from Qwen2.5-VL, without vLLM."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.tiny import ask, picture
from tests.unit.models.tiny_families import TILE, build

from groundrl.models.config import ModelConfig
from groundrl.models.family import FAMILIES
from groundrl.models.load import Policy, load_policy
from groundrl.models.pixels import picture_of
from groundrl.rollout.engines.vllm import VllmConfig
from groundrl.rollout.engines.vllm_launch import engine_settings, write_folder
from groundrl.rollout.engines.vllm_prompt import as_prompt


@pytest.fixture(scope="module")
def tiled(tmp_path_factory: pytest.TempPathFactory) -> Policy:
    folder = tmp_path_factory.mktemp("vllm") / "internvl"
    build("internvl", folder)
    return load_policy(ModelConfig(path=str(folder)))


@pytest.mark.parametrize(
    ("family", "chunked", "prefix"),
    [
        ("qwen3_vl", False, True),
        ("qwen3_5", False, False),
        ("qwen3_5", True, True),
        ("internvl", False, True),
    ],
)
def test_settings(family: str, chunked: bool, prefix: bool) -> None:
    """Prefixes of recurrent layers need chunks; tiles are cut by Pillow; what is switched off stays off."""
    config = VllmConfig(chunked_prefill=chunked)
    model: Any = torch.nn.Linear(1, 1)
    made = engine_settings(Path("any"), model, config, FAMILIES[family])
    assert made["enable_prefix_caching"] is prefix
    assert made.get("mm_processor_kwargs") == ({"use_fast": False} if family == "internvl" else None)
    off = replace(config, prefix_caching=False)
    assert engine_settings(Path("any"), model, off, FAMILIES[family])["enable_prefix_caching"] is False


def test_marks_around_pictures_are_left_to_vllm(tiled: Policy) -> None:
    """Two pictures: their own marks go with their tokens, and nothing else does."""
    processor = tiled.processor
    context = ask(processor, "red circle", [(112, 112), (56, 84)])
    prompt = as_prompt(context.ids, context.images, processor)
    counts = [processor.family.image_tokens(image.grid_thw) for image in context.images]
    assert len(prompt["prompt_token_ids"]) == len(context.ids) - sum(counts) + 2 - 4
    words = processor.tokenizer.convert_ids_to_tokens(prompt["prompt_token_ids"])
    assert words.count("<IMG_CONTEXT>") == 2
    assert {"<img>", "</img>"}.isdisjoint(words)
    text = ask(processor, "red circle")
    assert as_prompt(text.ids, (), processor)["prompt_token_ids"] == text.ids.tolist()
    # a mark that is not around a picture stays, so that the check of the expanded prompt can find it
    start, _, end = processor.tokenizer.convert_tokens_to_ids(["<img>", "<IMG_CONTEXT>", "</img>"])
    odd = np.array([start, 5, end, start, *[processor.image_id] * counts[1], end, end], dtype=np.int64)
    kept = as_prompt(odd, context.images[1:], processor)["prompt_token_ids"]
    assert kept == [start, 5, end, processor.image_id, end]


def test_tiles_go_with_the_picture_that_they_were_cut_from(tiled: Policy) -> None:
    """Its tiles and its thumbnail are made again, which the tiles alone would not allow."""
    processor = tiled.processor
    image = picture((120, 70), 1)
    first = processor.prepare(image)
    assert first.grid_thw[0] > 1
    back = picture_of(first, processor.image_processor, processor.family)
    np.testing.assert_array_equal(np.asarray(back), np.asarray(image))
    np.testing.assert_array_equal(processor.prepare(back).patches, first.patches)


def test_the_folder_says_how_many_tokens_a_tile_has(
    tiled: Policy, tiny_policy: Policy, tmp_path: Path
) -> None:
    write_folder(tmp_path / "tiled", tiled.model, tiled.processor)
    described = json.loads((tmp_path / "tiled" / "processor_config.json").read_text("utf-8"))
    # 56 / 14 = 4 patches a side, four patches a token
    assert described == {"processor_class": "InternVLProcessor", "image_seq_length": (TILE // 14) ** 2 // 4}
    write_folder(tmp_path / "plain", tiny_policy.model, tiny_policy.processor)
    assert not (tmp_path / "plain" / "processor_config.json").exists()
