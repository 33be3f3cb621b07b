"""sweeps/<id>.yaml and sweeps/scales/<scale>.yaml: what is read, and how a mistake is named."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.unit.sweeping.checkout import COMMAND, Checkout

from groundrl.errors import ConfigError
from groundrl.sweeping.points import points
from groundrl.sweeping.scale_file import NotTestable, read_scale
from groundrl.sweeping.sweep_file import read_sweep

GOOD = f"program: train.py\nmethod: grid\nname: s\n{COMMAND}\nparameters:\n  reward: {{values: [ap, iou]}}\n"


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("program: train.py\n", "", "s.yaml: program: is missing; write program: ..."),
        ("train.py", "eval.py", "s.yaml: program: must be the one entry, got 'eval.py'; write train.py"),
        ("name: s", "name: t", "s.yaml: name: must be the file's name, got 't'; write name: s"),
        ("grid", "bayes", "s.yaml: method: cannot be run here, got 'bayes'; methods: grid, random"),
        ("grid", "random", "s.yaml: run_cap: is missing, and random draws never end"),
        ("_no_hyphens", "", "s.yaml: command: must pass the settings without hyphens"),
        ("method", "metod", "s.yaml: metod: no such key; did you mean method? keys there: program,"),
        (
            "[ap, iou]",
            "[ap, null]",
            "s.yaml: parameters.reward.values[1]: is empty, got 'null'; write \"null\" in",
        ),
        ("[ap, iou]", "[ap, [1, null]]", "s.yaml: parameters.reward.values[1][1]: is empty"),
        ("[ap, iou]", "[]", "s.yaml: parameters.reward.values: must be a list of values, got []"),
        ("[ap, iou]", "[{a: 1}]", "parameters.reward.values[0]: must be a text, number or list"),
        ("{values: [ap, iou]}", "ap", "s.yaml: parameters.reward: must be a mapping"),
        (
            "{values: [ap, iou]}",
            "{min: 1, max: 2}",
            "parameters.reward.min: no such key; keys there: value, val",
        ),
        ("{values: [ap, iou]}", "{value: 1, values: [1]}", "parameters.reward: needs either value or values"),
        (
            "{values: [ap, iou]}",
            "{parameters: {}}",
            "parameters.reward.parameters: nested parameters are not",
        ),
        (
            "reward:",
            "seed: {values: [0, x]}\n  reward:",
            "parameters.seed.values[1]: must be a whole number, got 'x'",
        ),
        ("reward:", "reward: {value: 1}\n  reward:", "s.yaml: cannot be read: 'reward' stands twice"),
        ("reward:", "re=ward:", "parameters.re=ward: is no name of a setting"),
        ("parameters:", "run_cap: 0\nparameters:", "s.yaml: run_cap: must be a number >= 1, got 0"),
    ],
)
def test_a_mistake_in_a_sweep_is_named(tmp_path: Path, old: str, new: str, said: str) -> None:
    file = tmp_path / "s.yaml"
    file.write_text(GOOD)
    assert len(points(read_sweep(file))) == 2  # it was good before
    assert old in GOOD
    file.write_text(GOOD.replace(old, new, 1))
    with pytest.raises(ConfigError) as error:
        read_sweep(file)
    assert said in str(error.value)
    assert str(file) in str(error.value)


def test_seeds_are_the_files_own_first(tmp_path: Path) -> None:
    file = tmp_path / "s.yaml"
    file.write_text(GOOD + "  seed: {values: [3, 1]}\n")
    sweep = read_sweep(file)
    assert sweep.axes == ("reward",)
    assert sweep.with_seeds(1).seeds == (3,)
    assert sweep.with_seeds(4).seeds == (3, 1, 0, 2)
    with pytest.raises(ConfigError, match="SEEDS: must be >= 1"):
        sweep.with_seeds(0)
    file.write_text(GOOD.replace("grid", "random\nrun_cap: 3"))
    with pytest.raises(ConfigError, match="SEEDS: a random sweep draws its seeds"):
        read_sweep(file).with_seeds(2)


def test_an_unknown_sweep_or_scale_lists_what_there_is(checkout: Checkout) -> None:
    with pytest.raises(ConfigError) as error:
        checkout.layout.sweep("piar")
    assert str(error.value) == "ID: no such sweep, got 'piar'; did you mean pair? sweeps: pair"
    with pytest.raises(ConfigError, match="SCALE: no such scale, got 'huge'; scales: tiny"):
        checkout.layout.scale("huge")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("twins: {modl: {a: tiny}}", "tiny.yaml: twins.modl: no such group; did you mean model?"),
        (
            "twins: {model: {qwen3b: tinyy}}",
            "twins.model.qwen3b: model has no such option, got 'tinyy'; did you",
        ),
        (
            "twins: {model: {qwen3b: {reason: x}}}",
            "twins.model.qwen3b.reason: no such key; keys there: not_test",
        ),
        ("twins: {model: {qwen3b: {not_testable: }}}", "twins.model.qwen3b.not_testable: must be a text"),
        ("ids: {x: {model: {qwen3b: 3}}}", "ids.x.model.qwen3b: must be a text, got 3"),
        ("words: [eval.samples]", "tiny.yaml: words[0]: has no value, got 'eval.samples'; write KEY=VALUE"),
        ("word: []", "tiny.yaml: word: no such key; did you mean words?"),
    ],
)
def test_a_mistake_in_a_scale_is_named(tmp_path: Path, text: str, said: str) -> None:
    file = tmp_path / "tiny.yaml"
    file.write_text(text)
    with pytest.raises(ConfigError) as error:
        read_scale(file)
    assert said in str(error.value)


def test_twins_of_one_sweep_come_before_the_general_ones(checkout: Checkout) -> None:
    scale = read_scale(checkout.layout.scale("tiny"))
    assert scale.twin("pair", "model", "qwen3b") == "tiny"
    assert scale.twin("other", "model", "qwen3b") == "tiny_ovd"
    assert scale.twin("other", "model", "qwen7b") == NotTestable(reason="no tiny model is that large")
    assert scale.groups("pair") == ("model",)
    with pytest.raises(ConfigError) as error:
        scale.twin("pair", "model", "qwen32b")
    assert (
        "tiny.yaml: twins.model: has no twin for an option of pair, got 'qwen32b'; add qwen32b: TWIN"
        in str(error.value)
    )


def test_an_empty_scale_changes_nothing(tmp_path: Path) -> None:
    file = tmp_path / "paper.yaml"
    file.write_text("# as published\n")
    scale = read_scale(file)
    assert (scale.words, scale.groups("pair")) == ((), ())
