"""model.train_last_layers: exactly the end of the language model learns, beside what else may."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from tests.tiny import experience, learner, varied_contexts, weights
from tests.unit.models.tiny_families import build

from groundrl.config.compose import compose_run
from groundrl.config.repo import conf_dir
from groundrl.errors import ConfigError
from groundrl.models.config import LoraConfig, ModelConfig
from groundrl.models.family import FAMILIES, QWEN25_VL
from groundrl.models.last_layers import keep_last
from groundrl.models.load import load_policy
from groundrl.models.plan_names import build_meta


@pytest.mark.parametrize(
    ("vision", "projector"), [(False, False), (True, False), (False, True), (True, True)]
)
@pytest.mark.parametrize("count", [1, 3])
def test_exactly_these_parameters_change(tiny_config, vision: bool, projector: bool, count: int) -> None:
    """The tiny model has three layers, and its head is its word embeddings."""
    config = replace(
        tiny_config.model, train_last_layers=count, freeze_vision=vision, freeze_projector=projector
    )
    policy = load_policy(config)
    before = weights(policy.model)
    made = learner(policy.model, policy.processor, lr=1e-2)
    contexts = varied_contexts(policy.processor)
    rows = experience(policy.processor, contexts, lengths=(5, 7, 3, 6), advantages=(1.0, -1.0, 0.5, -0.5))
    metrics = made.step(rows)
    assert metrics["learner/skipped"] == 0.0
    changed = {n for n, v in weights(policy.model).items() if v.tobytes() != before[n].tobytes()}
    layers = tuple(f"model.language_model.layers.{n}." for n in range(3 - count, 3))
    merger = {n for n in before if n.startswith("model.visual.merger.")}
    tower = {n for n in before if n.startswith("model.visual.")} - merger
    expected = {n for n in before if n.startswith((*layers, "model.language_model.norm."))}
    expected |= set() if vision else tower
    expected |= set() if projector else merger
    assert changed == expected
    assert len(made.parameters) == len(expected)


def test_a_head_of_its_own_learns_and_the_embeddings_do_not() -> None:
    model = build_meta(conf_dir() / "model" / "architecture" / "qwen2.5-vl-7b.json", "model.architecture")[0]
    keep_last(model, QWEN25_VL, 2)
    learning = {n for n, p in model.named_parameters() if p.requires_grad and "visual" not in n}
    parts = {n.rsplit(".", 1)[0] if ".layers." not in n else ".".join(n.split(".")[:4]) for n in learning}
    assert parts == {
        "model.language_model.layers.26",
        "model.language_model.layers.27",
        "model.language_model.norm",
        "lm_head",
    }
    frozen = {n for n, p in model.named_parameters() if not p.requires_grad}
    assert "model.language_model.embed_tokens.weight" in frozen
    assert not any("layers.26." in n or "visual" in n for n in frozen)


@pytest.mark.parametrize("name", sorted(FAMILIES))
def test_every_family(name: str, tmp_path: Path) -> None:
    folder = tmp_path / name
    build(name, folder)
    model = load_policy(ModelConfig(path=str(folder), freeze_vision=True, freeze_projector=True,
                                    train_last_layers=1)).model  # fmt: skip
    learning = [n for n, p in model.named_parameters() if p.requires_grad]
    last = len(model.get_submodule(FAMILIES[name].decoder_layers)) - 1
    own = f"{FAMILIES[name].decoder_layers}.{last}."
    assert any(n.startswith(own) for n in learning)
    rest = {n for n in learning if not n.startswith(own)}
    assert {n.split(".")[-2] for n in rest} <= {"norm", "lm_head"}
    assert any(n.endswith("language_model.norm.weight") for n in rest)


def test_numbers_that_cannot_be_meant(tiny_config) -> None:
    with pytest.raises(
        ConfigError, match=r"model\.train_last_layers: the language model has 3 decoder layers, got 4"
    ):
        load_policy(replace(tiny_config.model, train_last_layers=4))
    with pytest.raises(ConfigError, match=r"^train_last_layers: must be >= 1 or null, got 0"):
        ModelConfig(path="x", train_last_layers=0)
    with pytest.raises(
        ConfigError, match=r"^train_last_layers: with model\.lora\.rank > 0 only the adapters learn"
    ):
        ModelConfig(path="x", train_last_layers=1, lora=LoraConfig(rank=4))
    with pytest.raises(ConfigError, match=r"model\.train_last_layers: with model\.lora\.rank > 0"):
        compose_run(["model.train_last_layers=1", "model.lora.rank=4"])


def test_the_plan_counts_only_what_learns() -> None:
    from groundrl.training.plan import plan

    text = plan(compose_run(["debug=plan", "model.train_last_layers=1", "model.freeze_vision=true",
                             "model.freeze_projector=true"]))  # fmt: skip
    # tiny: hidden 128, key-values 64, intermediate 256; q and k and v have biases, the head is tied
    q, kv, out = 128 * 128 + 128, 2 * (128 * 64 + 64), 128 * 128
    layer = q + kv + out + 3 * 128 * 256 + 2 * 128
    learning = next(line for line in text.splitlines() if line.split()[:1] == ["learning"])
    assert int(learning.split()[-1].replace(",", "")) == layer + 128
