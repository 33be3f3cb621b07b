"""Words of the command line before composing."""

from __future__ import annotations

import pytest
from hydra._internal.utils import get_args_parser

from groundrl.config import words as module
from groundrl.config.repo import groups
from groundrl.config.words import check_words, is_multirun, parted, quoted, split
from groundrl.errors import ConfigError


def test_flags_and_settings_are_told_apart_wherever_they_stand() -> None:
    flags, settings = split(["seed=0,1", "-m", "reward=ap", "--cfg", "job", "lr=-1", "--info", "all", "x=1"])
    assert flags == ["-m", "--cfg", "job", "--info", "all"]
    assert settings == ["seed=0,1", "reward=ap", "lr=-1", "x=1"]
    assert is_multirun(flags)
    assert not is_multirun(["--cfg", "job"])


def test_an_optional_value_is_taken_only_if_it_is_one() -> None:
    assert split(["--info", "seed=1"]) == (["--info"], ["seed=1"])
    assert split(["--cfg=job", "seed=1"]) == (["--cfg=job"], ["seed=1"])


def test_every_flag_of_hydra_is_known_and_no_other() -> None:
    known = {flag for action in get_args_parser()._actions for flag in action.option_strings}
    listed = {*module.PLAIN_FLAGS, *module.VALUE_FLAGS, *module.OPTIONAL_FLAGS}
    assert listed == known


@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("--seed=3", "--seed=3: settings are written without dashes; write seed=3"),
        (
            "--learning-rate",
            "--learning-rate: settings are written without dashes; write learning_rate=VALUE",
        ),
        ("-x", "-x: settings are written without dashes; write x=VALUE"),
        ("--", "--: settings are written without dashes; write key=VALUE"),
    ],
)
def test_other_programs_flags_are_explained(word: str, message: str) -> None:
    with pytest.raises(ConfigError) as error:
        split(["reward=ap", word])
    assert str(error.value) == message


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["=3"], "=3: has no key; write key=value"),
        (["seed"], "seed: has no value; write seed=VALUE"),
        (["task"], "task: has no value; write task=OPTION; options: mcq, numeric, ovd, *"),
        (["seed=0", "seed=1"], "seed: is given twice, got 'seed=0 and seed=1'; keep one of them"),
        (["seed=0", "++seed=1"], "seed: is given twice, got 'seed=0 and ++seed=1'; keep one of them"),
        (["task="], "task: needs an option, got ''; options: mcq, numeric, ovd, *"),
        (["task=null"], "task: needs an option, got 'null'; options: mcq, numeric, ovd, *"),
        (["~task"], "task: a group cannot be left out, got '~task'; choose one of its options: mcq, *"),
        (["~task=rec"], "task: a group cannot be left out, got '~task=rec'; choose one of its options: *"),
        (["reward.terms={}"], "reward.terms: an empty mapping changes nothing, got '{}'; *"),
    ],
)  # fmt: skip
def test_words_without_effect_are_refused(words: list[str], message: str) -> None:
    with pytest.raises(ConfigError) as error:
        check_words(words)
    start, star, _ = message.partition("*")
    assert str(error.value).startswith(start)
    assert star or str(error.value) == message


def test_a_preset_that_does_not_exist_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "groups", lambda: {"experiment": ("base", "long")})
    check_words(["experiment=null"])
    check_words(["experiment=base,long", "seed=1"])
    check_words(["experiment=glob(*)"])
    with pytest.raises(ConfigError) as error:
        check_words(["experiment=base,lang"])
    assert (
        str(error.value) == "experiment: no such preset, got 'lang'; did you mean long? options: base, long"
    )
    monkeypatch.setattr(module, "groups", dict)
    with pytest.raises(ConfigError, match="conf/experiment has no presets"):
        check_words(["experiment=base"])


@pytest.mark.parametrize(
    "words",
    [
        ["reward=ap", "seed=3", "+reward/term@reward.terms.x=iou", "~reward.terms.format"],
        ["algorithm=sft", "algorithm.lr=1e-4"],
        ["a.b=x=y", "prompt.suffix='a {b}'", "dataset.objects=[1,2]"],
    ],
)
def test_plain_words_pass(words: list[str]) -> None:
    check_words(words)


def test_parted() -> None:
    assert parted("++a.b=x=y") == ("a.b", "x=y")
    assert parted("~a") == ("a", "")
    assert parted(r"model.path=C:\runs\x") == ("model.path", r"C:\runs\x")


def test_groups_are_the_folders_with_options() -> None:
    found = groups()
    assert found["task"] == ("mcq", "numeric", "ovd", "point", "rec", "region", "text", "yes_no")
    assert "ap50" in found["reward/term"]
    assert "model/architecture" not in found
    assert "" not in found
    assert "." not in found


@pytest.mark.parametrize(
    ("word", "read"),
    [
        ("resume=out/reward=ap,model=tiny-s0-1f", 'resume="out/reward=ap,model=tiny-s0-1f"'),
        ("model.path=a=b", 'model.path="a=b"'),
        ('model.path=a="b', 'model.path="a=\\"b"'),
        ("seed=0,1", "seed=0,1"),
        ('resume="a=b"', 'resume="a=b"'),
        ("dataset.styles={word: 1}", "dataset.styles={word: 1}"),
        ("experiment=glob(*)", "experiment=glob(*)"),
        ("~reward", "~reward"),
    ],
)
def test_values_with_an_equals_sign_are_quoted(word: str, read: str) -> None:
    assert quoted(word) == read
