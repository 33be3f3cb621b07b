"""debug=plan: the published architectures without weights, names, and memory that can be recomputed."""

from __future__ import annotations

import copy
import json
import weakref
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten

from groundrl.config.compose import compose_run
from groundrl.config.repo import conf_dir, repo_root
from groundrl.errors import ConfigError, UserError
from groundrl.learner.logprobs import Scorer
from groundrl.models.family import QWEN25_VL
from groundrl.models.forward import Row
from groundrl.models.lora import inject
from groundrl.models.plan import config_file, plan, sizes_of
from groundrl.models.plan_memory import GIB, Item, Load, Sizes, drawing, learning, states
from groundrl.models.plan_names import build_meta, check_adapters, check_names, find_units
from groundrl.training.plan import load_of
from groundrl.training.plan import plan as run_plan
from groundrl.types import ImageFrame, PreparedImage

ARCHITECTURES = conf_dir() / "model" / "architecture"
TINY = repo_root() / "assets" / "tiny-vlm" / "v1" / "rec-start" / "config.json"
PUBLISHED = {"3b": 3_754_622_976, "7b": 8_292_166_656, "32b": 33_452_718_336}
"""Parameters of the published checkpoints (conf/model/architecture/README.md)."""
ADAPTED = 3 * ((128 + 128) * 2 + (128 + 64) * 2 + (128 + 256) * 3)
"""The tiny model's adapters at rank 1: in + out of q, o, k, v, gate, up, down in three layers."""


def meta(name: str) -> Any:
    return build_meta(ARCHITECTURES / f"qwen2.5-vl-{name}.json", "model.architecture")[0]


@pytest.fixture(scope="module")
def seven() -> Any:
    return meta("7b")


@pytest.mark.parametrize("name", sorted(PUBLISHED))
def test_parameter_counts_are_the_published_ones(name: str) -> None:
    model = meta(name)
    assert sum(p.numel() for p in model.parameters()) == PUBLISHED[name]
    assert {p.device.type for p in model.parameters()} == {"meta"}
    assert model.config.tie_word_embeddings is (name == "3b")


def test_tower_of_the_7b_checkpoint(seven: Any) -> None:
    tower, projector = check_names(seven, QWEN25_VL)
    assert tower + projector == 676_550_144  # published for the 7B checkpoint's visual module
    hidden = 1280 * 4
    assert projector == 1280 + hidden * hidden + hidden + hidden * 3584 + 3584


def test_a_checkpoints_own_older_layout_gives_the_same_model(tmp_path: Path) -> None:
    nested = json.loads((ARCHITECTURES / "qwen2.5-vl-3b.json").read_text())
    text = nested.pop("text_config")
    rope = text.pop("rope_parameters")
    flat = {**text, **nested, "rope_theta": rope["rope_theta"], "model_type": "qwen2_5_vl"}
    flat["rope_scaling"] = {"type": "mrope", "mrope_section": rope["mrope_section"]}
    (tmp_path / "config.json").write_text(json.dumps(flat))
    old, new = build_meta(tmp_path / "config.json", "model.path")[0], meta("3b")
    assert {n: p.shape for n, p in old.named_parameters()} == {n: p.shape for n, p in new.named_parameters()}


def test_sharding_units_cover_every_parameter_once(seven: Any) -> None:
    units = find_units(seven, QWEN25_VL)
    assert (units.decoder_blocks, units.vision_blocks) == (28, 32)
    assert units.decoder + units.vision + units.root == PUBLISHED["7b"]
    assert units.largest * 28 == units.decoder
    outside = 2 * 152064 * 3584 + 3584  # embeddings, head, final norm
    assert units.root == outside + check_names(seven, QWEN25_VL)[1] + 3 * 2 * 14 * 14 * 1280


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"vision_prefix": "visual."}, r"no parameter is named visual\.\*"),
        ({"projector_prefix": "model.visual.project."}, r"no parameter is named model\.visual\.project\.\*"),
        ({"adapter_targets": ("q_proj", "qkv")}, "layers.0 has 0 linear layers named qkv, not one"),
        ({"decoder_layers": "model.layers"}, "no list of blocks model.layers"),
        ({"decoder_layers": "lm_head"}, "no list of blocks lm_head"),
    ],
)
def test_a_name_that_is_not_in_the_model_is_said(seven: Any, change: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        check_names(seven, replace(QWEN25_VL, **change))


def test_blocks_that_are_missing_are_said() -> None:
    model = build_meta(TINY, "model.path")[0]
    del model.model.visual.blocks[1]
    with pytest.raises(UserError, match=r"model.visual.blocks holds 1 blocks, the configuration says 2"):
        find_units(model, QWEN25_VL)
    with pytest.raises(UserError, match=r"no list of blocks model\.visual\.layers"):
        find_units(model, replace(QWEN25_VL, vision_blocks="model.visual.layers"))


def test_adapters_are_on_the_decoder_only() -> None:
    config = compose_run(["model.lora.rank=4"]).model
    model = build_meta(TINY, "model.path")[0]
    inject(model, QWEN25_VL, config.lora)
    check_adapters(model, QWEN25_VL)
    # the vision tower's MLPs have layers of the same names: a looser pattern would adapt them too
    stray = build_meta(TINY, "model.path")[0]
    inject(stray, replace(QWEN25_VL, decoder_layers="model"), config.lora)
    with pytest.raises(UserError, match=r"got adapters, 21 were meant; outside the decoder: model\.visual\."):
        check_adapters(stray, QWEN25_VL)
    fewer = build_meta(TINY, "model.path")[0]
    inject(fewer, replace(QWEN25_VL, adapter_targets=("q_proj",)), config.lora)
    with pytest.raises(UserError, match="3 layers got adapters, 21 were meant"):
        check_adapters(fewer, QWEN25_VL)


def sizes(**changes: Any) -> Sizes:
    values: dict[str, Any] = {
        "parameters": 8000, "trainable": 6000, "root": 1000, "largest": 300, "layers": 10, "hidden": 16,
        "query": 16, "key_value": 4, "heads": 2, "intermediate": 40, "vocabulary": 100, "vision_layers": 3,
        "vision_hidden": 8, "vision_intermediate": 20, "vision_trains": True,
    }  # fmt: skip
    return Sizes(**values | changes)


def load(**changes: Any) -> Load:
    values: dict[str, Any] = {
        "ranks": 4, "weight_bytes": 2, "rows": 3, "prompts": 2, "images": 2, "prompt": 20, "completion": 5,
        "image_tokens": 9, "merge": 4, "drawn": 7, "trains": True, "checkpointing": True,
        "reference": True, "eager": False,
    }  # fmt: skip
    return Load(**values | changes)


def by_name(items: list[Item]) -> dict[str, float]:
    return {item.name: item.bytes for item in items}


def test_states_are_the_shares_of_one_process() -> None:
    assert by_name(states(sizes(), load())) == {
        "weights": 8000 * 2 / 4,
        "master weights": 6000 * 4 / 4,
        "gradients": 6000 * 4 / 4,
        "AdamW moments": 6000 * 8 / 4,
        "reference policy": 8000 * 2 / 4,
        "gathered blocks": (1000 + 2 * 300) * 2,
    }
    copied = by_name(states(sizes(), load(engine_parts=2)))
    assert copied["engine's copy"] == 8000 * 2 / 2
    alone = by_name(states(sizes(), load(ranks=1, weight_bytes=4, reference=False)))
    assert alone == {"weights": 32000, "gradients": 24000, "AdamW moments": 48000}
    assert by_name(states(sizes(), load(ranks=1, trains=False, reference=False))) == {"weights": 16000}


def test_activations_follow_their_formulas() -> None:
    block = 4 * 16 + 3 * 16 + 4 * 4 + 4 * 40
    vision = 11 * 8 + 4 * 20
    # a block made anew is there with its gradients
    back, vision_back = 2 * 16 + 3 * 40, 2 * 8 + 3 * 20
    # two prompts of 20 and three completions of 5 tokens
    tokens, patches = 2 * 20 + 3 * 5, 2 * 9 * 4
    assert by_name(learning(sizes(), load())) == {
        "decoder activations": 2 * tokens * (10 * 16 + block + back),
        "vision activations": 2 * patches * (3 * 8 + vision + vision_back),
        "logits": 2 * 4 * 3 * 5 * 100,
    }
    whole = by_name(learning(sizes(vision_trains=False), load(checkpointing=False)))
    assert whole == {"decoder activations": 2 * tokens * 10 * block, "logits": 2 * 4 * 3 * 5 * 100}
    eager = by_name(learning(sizes(), load(eager=True)))["decoder activations"]
    assert eager == 2 * (tokens * (10 * 16 + block + back) + 3 * 2 * 25**2)
    assert learning(sizes(), load(trains=False)) == []
    assert by_name(drawing(sizes(), load())) == {"key-value cache": 2 * 2 * 10 * 4 * 7 * 25}


class Live(TorchDispatchMode):
    """Counts the bytes of tensors that are alive."""

    def __init__(self) -> None:
        super().__init__()
        self.known: dict[int, int] = {}
        self.peak = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        for value in tree_flatten(out)[0]:
            if isinstance(value, torch.Tensor):
                storage = value.untyped_storage()
                key = storage._cdata
                if key not in self.known:
                    self.known[key] = storage.nbytes()
                    weakref.finalize(storage, self.known.pop, key, None)
        self.peak = max(self.peak, sum(self.known.values()))
        return out


@pytest.mark.parametrize(
    ("checkpointing", "vocabulary", "side", "completion"),
    [(False, 640, 16, 128), (True, 640, 16, 128), (True, 20_000, 4, 96)],
)
def test_the_estimate_is_near_a_measured_step(
    checkpointing: bool, vocabulary: int, side: int, completion: int
) -> None:
    settings = json.loads(TINY.read_text())
    settings["text_config"] |= {"num_hidden_layers": 6, "intermediate_size": 700, "vocab_size": vocabulary}
    settings["text_config"].pop("layer_types")
    settings["vision_config"] |= {"depth": 4}
    model_class = type(build_meta(TINY, "model.path")[0])
    model = model_class(model_class.config_class.from_dict(copy.deepcopy(settings)))
    if checkpointing:
        model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    model.train()
    tokens = (side // 2) ** 2
    picture = PreparedImage(
        patches=np.ones((side * side, 1176), dtype=np.float32),
        grid_thw=(1, side, side),
        frame=ImageFrame(original=(side * 14, side * 14), processed=(side * 14, side * 14)),
    )
    image_id = settings["image_token_id"]
    prompt = np.array([image_id] * tokens + [5] * 64, dtype=np.int64)
    answer = np.full(completion, 7, dtype=np.int64)
    rows = [Row(prompt=prompt, images=(picture,), completion=answer) for _ in range(4)]
    own = sizes_of(model, QWEN25_VL, find_units(model, QWEN25_VL))
    estimate = sum(
        item.bytes
        for item in learning(
            own,
            load(
                weight_bytes=4, rows=4, prompts=1, images=1, prompt=len(prompt), completion=completion,
                image_tokens=tokens, checkpointing=checkpointing,
            ),
        )
    )  # fmt: skip
    with Live() as live:
        Scorer(temperature=1.0, banned_ids=[image_id], pad_id=0)(model, rows).logprobs.sum().backward()
    gradients = 4 * own.parameters
    assert 0.8 < estimate / (live.peak - gradients) < 1.25


def test_the_plan_of_a_paper_scale_run() -> None:
    text = run_plan(compose_run(["reward=odlength", "model=qwen7b", "debug=plan"]))
    lines = {line[2:24].strip(): line[24:].split()[0] for line in text.splitlines() if len(line) > 24}
    assert lines["total"] != lines["learning"]  # the memory table's total comes last
    assert "  total                      8,292,166,656" in text.splitlines()
    assert lines["learning"] == "8,292,166,656"
    assert lines["weights"] == f"{PUBLISHED['7b'] * 2 / 8 / GIB:.2f}" == "1.93"
    assert lines["AdamW moments"] == "7.72"
    # 2^25 logits are 220 tokens of this vocabulary
    assert lines["logits"] == f"{2 * 4 * 220 * 152064 / GIB:.2f}" == "0.25"
    assert "reference policy" not in lines  # beta is 0 for open-vocabulary detection
    assert "28 x model.language_model.layers (78.7% of all parameters)" in text
    assert "fits into 80 GiB" in text


@pytest.mark.parametrize(
    ("words", "expected", "absent"),
    [
        ("model=qwen32b", "reference policy|exceeds 80 GiB by|copy; use rollout/engine=vllm", "fits"),
        ("model=qwen32b debug.plan_ranks=32", "one of 32 processes|exceeds 80 GiB by|engine's copy", "fits"),
        (
            "model=qwen32b debug.plan_ranks=32 rollout/engine=vllm rollout.engine.tensor_parallel_size=8",
            "one of 32 processes|fits into 80 GiB",
            "exceeds",
        ),
        ("model=qwen3b algorithm.optim.micro_batch=64", "fits into 80 GiB", "exceeds"),
        ("model=qwen7b algorithm=eval_only", f"  {'learning':<22}{0:>18}|key-value", "logits"),
        ("algorithm/kl=k3 model.lora.rank=8", f"  {'learning':<22}{8 * ADAPTED:>18,}", "reference policy"),
        ("model=qwen3b model.freeze_vision=true", f"{PUBLISHED['3b'] - 631_975_680:,}", "vision activations"),
        ("", "783,296|MiB", "GiB of"),
    ],
)  # fmt: skip
def test_the_plan_answers_what_was_asked(words: str, expected: str, absent: str) -> None:
    text = run_plan(compose_run([*words.split(), "debug=plan"]))
    for part in expected.split("|"):
        assert part in text
    assert absent not in text


def test_the_load_of_one_process() -> None:
    config = compose_run(["model=qwen7b", "debug=plan"])
    own = load_of(config)
    assert (own.ranks, own.weight_bytes, own.rows, own.prompts, own.images) == (8, 2, 4, 1, 1)
    assert (own.image_tokens, own.prompt, own.completion, own.drawn) == (1280, 1536, 2048, 16)
    assert own.reference
    assert own.checkpointing
    assert not own.eager
    assert not load_of(compose_run(["model=qwen7b", "model.lora.rank=8"])).reference
    supervised = load_of(compose_run(["model=qwen7b", "algorithm=sft", "algorithm.batch_size=24"]))
    assert (supervised.rows, supervised.images, supervised.reference) == (3, 3, False)
    padded = load_of(compose_run(["model=qwen7b", "algorithm.optim.shared_prefix=off"]))
    assert (padded.rows, padded.prompts, padded.images) == (4, 4, 1)
    # 8 completions of 2048 and their prompt of 1536 are 17,920 tokens; 1536 + 2048 more leave room for one
    by_tokens = load_of(compose_run(["model=qwen7b", "algorithm.optim.micro_tokens=21504"]))
    assert (by_tokens.rows, by_tokens.prompts) == (9, 2)


def test_where_the_configuration_comes_from(tmp_path: Path) -> None:
    config = compose_run(["model=qwen7b"]).model
    file, key = config_file(config)
    assert (file.resolve(), key) == (ARCHITECTURES / "qwen2.5-vl-7b.json", "model.architecture")
    (tmp_path / "config.json").write_text(TINY.read_text())
    own = replace(config, path=str(tmp_path))
    assert config_file(own) == (tmp_path / "config.json", "model.path")
    assert "783,296" in plan(own, load())
    with pytest.raises(ConfigError, match=r"model.path: has no config.json to plan with, got 'nowhere'"):
        config_file(replace(config, path="nowhere", architecture=None))
    (tmp_path / "config.json").write_text("{broken")
    with pytest.raises(ConfigError, match=r"model.path: cannot be read as a model's configuration"):
        plan(own, load())
    with pytest.raises(ConfigError, match=r"model.architecture: cannot be read"):
        plan(replace(config, architecture="no/such.json"), load())
    (tmp_path / "config.json").write_text('{"model_type": "gpt2"}')
    with pytest.raises(UserError, match="model_type 'gpt2' is not a known family"):
        plan(own, load())
