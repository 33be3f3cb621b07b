"""Names of run folders."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from groundrl.config.invocation import Invocation


def invocation(*words: str, **resolved: object) -> Invocation:
    return Invocation(overrides=words, experiment=None, resolved=dict(resolved))


def test_name_holds_the_axes_sorted_without_what_is_not_one() -> None:
    name = invocation(
        "seed=3", "reward=ap", "paths.root=/x", "experiment=e", "algorithm.lr=1e-4"
    ).folder_name(3)
    assert re.fullmatch(r"algorithm\.lr=1e-4,reward=ap-s3-[0-9a-f]{8}", name)
    assert invocation("seed=3").folder_name(3).startswith("default-s3-")


def test_hash_is_that_of_the_settings_and_not_of_where_files_go() -> None:
    base = invocation(seed=1, paths={"root": "a"}, resume=None)
    assert base.config_hash == invocation("x=1", paths={"root": "b"}, resume="r", seed=1).config_hash
    assert base.config_hash != invocation(seed=2, paths={"root": "a"}).config_hash
    assert len(base.config_hash) == 64


def test_other_settings_never_share_a_name() -> None:
    assert invocation("a=[1, 2]", a=1).folder_name(0) != invocation("a=[1  2]", a=2).folder_name(0)


@pytest.mark.parametrize(
    "word",
    [
        r"model.path=C:\runs\a b",
        "model.path=/etc/../x",
        "+reward/term@reward.terms.x=iou",
        "prompt.suffix='ä\n*?'",
    ],
)
def test_paths_and_odd_characters_do_not_break_the_name(word: str) -> None:
    name = invocation(word).folder_name(0)
    assert re.fullmatch(r"[A-Za-z0-9=.,_-]+", name)
    assert not name.startswith(".")


@given(st.lists(st.text(max_size=300), max_size=5), st.integers(0, 2**31 - 1))
def test_any_words_give_one_folder_name(words: list[str], seed: int) -> None:
    name = invocation(*words).folder_name(seed)
    assert re.fullmatch(r"[A-Za-z0-9=.,_-]+", name)
    assert len(name) <= 100 + len(f"-s{seed}-") + 8
    assert name not in (".", "..")
    assert name.endswith(f"-s{seed}-{invocation().config_hash[:8]}")
