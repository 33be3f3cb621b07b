"""Settings of the synthetic worlds: every one counts, and those that cannot work are named."""

from __future__ import annotations

import pytest

from groundrl.data.base import DatasetConfig, Split
from groundrl.data.shapes import Shapes, ShapesConfig, ShapesOvdConfig, ShapesRecConfig
from groundrl.errors import ConfigError, DataError
from groundrl.types import Task


def world(split: Split = Split.TRAIN, **changes) -> Shapes:
    return ShapesConfig(**changes).build(split)


def test_a_limited_pool_ends() -> None:
    source = world(train_size=5)
    assert source.size == 5
    source.sample(4)
    for index in (5, -1):
        with pytest.raises(DataError, match="outside the pool of 5"):
            source.sample(index)
    assert world(Split.HELDOUT, train_size=5).size is None
    assert world().size is None


def test_settings_no_scene_can_meet_are_named() -> None:
    crowded = world(objects=[9, 9], size=[50, 56], max_overlap=0.0)
    with pytest.raises(DataError, match="no scene fits the settings"):
        crowded.sample(0)
    alone = world(objects=[1, 1], styles={"relation": 1.0})
    with pytest.raises(DataError, match=r"dataset\.styles"):
        alone.sample(0)


def test_the_fingerprint_changes_with_every_setting() -> None:
    changes = [
        {},
        {"task": Task.ovd},
        {"seed": 1},
        {"image_size": 140},
        {"objects": [1, 3]},
        {"size": [24, 48]},
        {"grid": 2},
        {"noise": 4.0},
        {"difficulty": 0.4},
        {"max_overlap": 0.2},
        {"styles": {"word": 1.0}},
        {"negatives": [0, 1]},
        {"none_fraction": 0.2},
        {"train_size": 9},
    ]
    prints = [world(**change).fingerprint() for change in changes] + [world(Split.HELDOUT).fingerprint()]
    assert len(set(prints)) == len(prints)
    assert world().fingerprint() == prints[0]


@pytest.mark.parametrize(
    ("changes", "key"),
    [
        ({"task": Task.mcq}, "task"),
        ({"objects": [0, 1]}, "objects"),
        ({"objects": [3, 1]}, "objects"),
        ({"objects": [1]}, "objects"),
        ({"size": [3, 10]}, "size"),
        ({"size": [24, 113]}, "size"),
        ({"negatives": [-1, 1]}, "negatives"),
        ({"grid": 0}, "grid"),
        ({"grid": 57}, "grid"),
        ({"noise": -1.0}, "noise"),
        ({"difficulty": 1.5}, "difficulty"),
        ({"difficulty": float("nan")}, "difficulty"),
        ({"max_overlap": -0.1}, "max_overlap"),
        ({"none_fraction": 2.0}, "none_fraction"),
        ({"styles": {"colour": 1.0}}, "styles.colour"),
        ({"styles": {"word": -1.0}}, "styles.word"),
        ({"styles": {"word": 0.0}}, "styles"),
        ({"styles": {}}, "styles"),
        ({"train_size": 0}, "train_size"),
    ],
)
def test_bad_settings_are_named(changes, key) -> None:
    with pytest.raises(ConfigError) as caught:
        ShapesConfig(**changes)
    assert caught.value.key == key


@pytest.mark.parametrize(
    ("changes", "key"),
    [
        ({"size": [30, 31], "grid": 7}, "grid"),
        ({"noise": float("nan")}, "noise"),
        ({"styles": {"word": float("nan")}}, "styles.word"),
    ],
)
def test_settings_that_crash_later_are_named(changes, key) -> None:
    with pytest.raises(ConfigError) as caught:
        ShapesConfig(**changes).build(Split.TRAIN).sample(0)
    assert caught.value.key == key


def test_registered_worlds() -> None:
    assert ShapesRecConfig().build(Split.TRAIN).tasks() == frozenset({Task.rec})
    assert ShapesOvdConfig(task=Task.ovd).build(Split.TRAIN).tasks() == frozenset({Task.ovd})
    with pytest.raises(ConfigError):
        DatasetConfig().build(Split.TRAIN)
