"""Mixtures: exact shares, every sample of a part before any repeats, the same sample at the same place."""

from __future__ import annotations

from collections import Counter

import pytest

from groundrl.config.compose import compose_run
from groundrl.data.base import STRETCH, DatasetConfig, Split
from groundrl.data.mixture import Mixture, MixtureConfig, shares
from groundrl.data.shapes import ShapesConfig
from groundrl.errors import ConfigError
from groundrl.types import Sample, Task, Truth


class Numbers:
    """Samples named after their part and index."""

    def __init__(self, name: str, size: int | None) -> None:
        self.name, self.size = name, size

    def sample(self, index: int) -> Sample:
        assert self.size is None or 0 <= index < self.size
        return Sample(id=f"{self.name}{index}", task=Task.rec, images=(), truth=Truth())

    def tasks(self) -> frozenset[Task]:
        return frozenset({Task.rec})

    def fingerprint(self) -> str:
        return self.name


def mixture(**sizes: int | None) -> Mixture:
    sources = {name: Numbers(name, size) for name, size in sizes.items()}
    return Mixture(sources, {"a": 3, "b": 1}, seed=0, finite=False)


@pytest.mark.parametrize(
    ("weights", "total", "expected"),
    [
        ({"a": 3, "b": 1}, 4, {"a": 3, "b": 1}),
        ({"a": 1, "b": 1, "c": 1}, 10, {"a": 4, "b": 3, "c": 3}),
        ({"a": 0.7, "b": 0.3}, 100, {"a": 70, "b": 30}),
        ({"a": 1, "b": 999}, 100, {"a": 0, "b": 100}),
    ],
)
def test_shares(weights: dict[str, float], total: int, expected: dict[str, int]) -> None:
    assert shares(weights, total) == expected


def test_every_cycle_holds_the_exact_shares() -> None:
    mixed = mixture(a=None, b=None)
    for start in range(0, 40, 4):
        names = Counter(mixed.sample(index).id[0] for index in range(start, start + 4))
        assert names == {"a": 3, "b": 1}


def test_a_part_is_used_up_before_it_repeats_and_then_in_another_order() -> None:
    mixed = mixture(a=6, b=5)
    ids = [mixed.sample(index).id for index in range(16)]
    first, second = [one for one in ids if one[0] == "a"][:6], [one for one in ids if one[0] == "a"][6:12]
    assert sorted(first) == sorted(second) == [f"a{i}" for i in range(6)]
    assert first != second
    assert [mixed.sample(index).id for index in reversed(range(16))] == ids[::-1]


def test_held_out_samples_come_once() -> None:
    sources = {name: Numbers(name, size) for name, size in (("a", 7), ("b", 9))}
    held = Mixture(sources, {"a": 3, "b": 1}, seed=0, finite=True)
    assert held.size == 8  # two cycles: seven samples of a give two shares of three
    ids = [held.sample(index).id for index in range(8)]
    assert len(set(ids)) == 8


def test_wrong_mixtures_are_named() -> None:
    with pytest.raises(ConfigError, match="is empty"):
        MixtureConfig().build(Split.TRAIN)
    with pytest.raises(ConfigError, match=r"weights\.b: is no part.*parts: a"):
        MixtureConfig(parts={"a": ShapesConfig()}, weights={"b": 1.0})
    with pytest.raises(ConfigError, match=r"weights\.a: must be > 0"):
        MixtureConfig(parts={"a": ShapesConfig()}, weights={"a": 0.0})
    parts: dict[str, DatasetConfig] = {name: ShapesConfig() for name in "abc"}
    short = MixtureConfig(parts=parts, cycle=2)
    with pytest.raises(ConfigError, match="gets no sample in a cycle of 2"):
        short.build(Split.TRAIN)


def test_a_mixture_is_written_on_the_command_line() -> None:
    words = [
        "dataset=mixture",
        "+dataset@dataset.parts.near=shapes_rec",
        "+dataset@dataset.parts.far=shapes_rec",
    ]
    words += ["dataset.parts.far.seed=3", "+dataset.weights={near: 3, far: 1}", "dataset.cycle=8"]
    source = compose_run(words).dataset.build(Split.TRAIN)
    assert source.tasks() == {Task.rec}
    worlds = Counter(source.sample(index).id.split("-")[3] for index in range(8))
    assert worlds == {"0": 6, "3": 2}


def test_the_stretch_of_a_seed_begins_every_part_at_its_beginning() -> None:
    """Seed 2 asks for index 2 * STRETCH + i: endless parts give that stretch of their own, from 0 on."""
    both = mixture(a=None, b=None)
    names = [both.sample(2 * STRETCH + index).id for index in range(8)]
    assert sorted(int(name[1:]) - 2 * STRETCH for name in names) == [0, 0, 1, 1, 2, 3, 4, 5]
