"""From a sweep at paper scale to the words that run here, and the key under which results are known."""

from __future__ import annotations

from typing import Any

import pytest
from omegaconf import OmegaConf
from tests.unit.sweeping.checkout import Checkout

from groundrl.config.compose import compose_words
from groundrl.errors import UserError
from groundrl.sweeping.cells import build_cells
from groundrl.sweeping.key import ADDED, config_key


def resolved(*words: str) -> dict[str, Any]:
    plain = OmegaConf.to_container(compose_words(words), resolve=True, enum_to_str=True)
    assert isinstance(plain, dict)
    return {str(name): value for name, value in plain.items()}


def key(*words: str) -> str:
    return config_key(resolved(*words))


def test_twins_stand_for_what_is_chosen_at_paper_scale(checkout: Checkout) -> None:
    checkout.sweep(
        "s", "model: {values: [qwen3b, qwen7b]}\nreward: {value: odlength}\nseed: {values: [0, 5]}"
    )
    cells = checkout.cells("s")
    assert [(cell.axes, cell.seed) for cell in cells] == [
        ({"model": "qwen3b"}, 0), ({"model": "qwen3b"}, 5),
        ({"model": "qwen7b"}, 0), ({"model": "qwen7b"}, 5),
    ]  # fmt: skip
    assert cells[1].words == ("reward=odlength", "model=tiny", "eval.samples=4", "seed=5")
    assert cells[1].twins == {"model": ("qwen3b", "tiny")}
    assert cells[1].key == key("reward=odlength", "model=tiny", "eval.samples=4", "seed=5")
    assert cells[1].steps == 80  # conf/scale/tiny.yaml, ovd
    assert cells[1].command == "python train.py reward=odlength model=tiny eval.samples=4 seed=5"
    assert cells[1].folder_name == f"model=qwen3b-s5-{cells[1].key[:8]}"
    assert cells[2].not_testable == "model=qwen7b: no tiny model is that large"
    assert cells[2].key == ""
    assert len({cell.key for cell in cells}) == 3  # two seeds, and the empty one


def test_a_default_that_nobody_wrote_has_its_twin_too(checkout: Checkout) -> None:
    """reward=odlength chooses the task and this the data set shapes_ovd, which the sweep does not name."""
    checkout.write(
        "sweeps/scales/tiny.yaml", "twins: {model: {qwen3b: tiny}, dataset: {shapes_ovd: shapes_point}}"
    )
    checkout.sweep("s", "model: {value: qwen3b}\nreward: {value: odlength}")
    (cell,) = checkout.cells("s")
    assert cell.words == ("reward=odlength", "dataset=shapes_point", "model=tiny", "seed=0")


def test_an_option_without_a_twin_names_file_key_and_cell(checkout: Checkout) -> None:
    checkout.sweep("s", "model: {values: [qwen3b, qwen32b]}\nreward: {value: ap}")
    with pytest.raises(UserError) as error:
        checkout.cells("s")
    assert "s.yaml: cell model=qwen32b reward=ap: " in str(error.value)
    assert "scales/tiny.yaml: twins.model: has no twin for an option of s, got 'qwen32b'" in str(error.value)


def test_words_that_do_not_compose_name_the_cell(checkout: Checkout) -> None:
    checkout.sweep("s", "model: {value: qwen3b}\nreward: {values: [ap, odlenght]}")
    with pytest.raises(
        UserError, match="cell model=qwen3b reward=odlenght: reward: no such option, got 'odl"
    ):
        checkout.cells("s")
    checkout.sweep("s", "model: {value: qwen3b}\neval.samples: {values: [8]}")
    with pytest.raises(
        UserError, match=r"eval.samples: is given twice, got 'eval.samples=8 and eval.samples=4'"
    ):
        checkout.cells("s")  # the scale sets it for every cell


def test_the_key_is_of_what_decides_a_result() -> None:
    base = key("reward=ap")
    assert len(base) == 16
    assert int(base, 16) >= 0
    without_effect = ("tracker=tensorboard", "threads=2", "paths.root=x", "scale.cosine_length=3")
    assert [key("reward=ap", word) for word in without_effect] == [base] * 4
    for word in ("seed=1", "algorithm.lr=0.1", "algorithm/kl=k3", "eval.samples=3", "scale.ovd.lr=0.1"):
        assert key("reward=ap", word) != base, word
    assert key("reward=ap", "scale.ovd.lr=0.1") == key("reward=ap", "algorithm.lr=0.1")


def test_the_key_does_not_depend_on_where_data_lies() -> None:
    """A path that begins like paths.data but is another folder counts in full."""

    def of(data: str, path: str) -> str:
        return config_key({"paths": {"data": data}, "dataset": {"path": path, "more": [path]}, "seed": 0})

    assert of("data", "data/coco") == of("/disk/d/", "/disk/d/coco") == of("/disk/d", "/disk/d/coco")
    assert of("data", "data/coco") != of("data", "data/d3")
    assert of("data", "database/coco") != of("/disk/d", "/disk/dabase/coco")


def test_words_without_effect_reach_every_cell_and_no_key(checkout: Checkout) -> None:
    plain = checkout.cells("pair")
    watched = build_cells(checkout.layout, "pair", "tiny", extra=["tracker=tensorboard"])
    assert [cell.key for cell in watched] == [cell.key for cell in plain]
    assert all("tracker=tensorboard" in cell.words for cell in watched)


def test_settings_that_came_later_do_not_change_keys() -> None:
    """A frozen result stays the result of its cell when a setting is added that leaves it as it was."""
    for dotted, before in ADDED.items():
        config = resolved()
        *parents, last = dotted.split(".")
        block: Any = config
        for parent in parents:
            block = block[parent]
        assert block[last] == before, f"{dotted}: a run without words is no longer what it was"
        key = config_key(config)
        block[last] = "another"
        assert config_key(config) != key
        del block[last]
        assert config_key(config) == key
