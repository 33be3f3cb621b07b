"""Worlds of descriptions, judged by a reader of their words that shares no code with them."""

from __future__ import annotations

import numpy as np
import pytest

from groundrl.config.compose import compose_run, compose_words
from groundrl.config.entry import typed
from groundrl.data.base import Split
from groundrl.data.described import Described, DescribedConfig, Names
from groundrl.data.phrases import PhraseStyle, phrases
from groundrl.data.scene import Ground, SceneObject
from groundrl.errors import ConfigError, DataError
from groundrl.types import Task

EVERY = {style.value: 1.0 for style in PhraseStyle}
ROUND = {"circle": "without", "square": "four", "triangle": "three"}
LIKE = {
    "red": "fire",
    "green": "grass",
    "blue": "sky",
    "yellow": "lemon",
    "purple": "plum",
    "orange": "carrot",
}


def read(text: str, item: SceneObject, objects: list[SceneObject], side: int = 112) -> bool:
    """Whether the words hold for the object, as a person takes them."""
    words = text.split()
    if text.startswith("the one"):
        return any(word in (ROUND[item.shape], LIKE[item.colour]) for word in words)
    if words[0] in LIKE:
        return text == f"{item.colour} {item.shape}"
    if words[0] not in ("shape", item.shape):
        return False
    x, y = (item.xyxy[0] + item.xyxy[2]) / 2, (item.xyxy[1] + item.xyxy[3]) / 2
    if "not" in words:
        return item.colour != words[-1]
    if words[1:2] in (["on"], ["at"]):
        return {"left": x < side / 2, "right": x > side / 2, "top": y < side / 2, "bottom": y > side / 2}[
            words[-1]
        ]
    if len(words) > 1:
        (anchor,) = [one for one in objects if f"{one.colour} {one.shape}" == " ".join(words[-2:])]
        if anchor is item:
            return False
        ax, ay = (anchor.xyxy[0] + anchor.xyxy[2]) / 2, (anchor.xyxy[1] + anchor.xyxy[3]) / 2
        return {"left": x < ax, "right": x > ax, "above": y < ay, "below": y > ay}[words[1]]
    return True


def world(split: Split = Split.TRAIN, **changes) -> Described:
    settings = {"task": Task.ovd, "styles": EVERY, "objects": [1, 4], "size": [14, 42], "grid": 7} | changes
    return DescribedConfig(**settings).build(split)


def test_boxes_are_those_of_the_objects_that_the_words_hold_for() -> None:
    source = world(present=[1, 3], absent=[0, 2])
    for index in range(400):
        sample, objects = source.draw(index)
        wanted = [
            (name, xyxy)
            for name in sample.targets
            for xyxy in sorted(item.xyxy for item in objects if read(name, item, objects))
        ]
        assert [(box.label, box.xyxy) for box in sample.truth.boxes] == wanted
        assert len(set(sample.targets)) == len(sample.targets) >= 1
        present = {name for name, _ in wanted}
        assert 1 <= len(present) <= 3
        assert len(sample.targets) - len(present) <= 2


def test_a_referring_expression_holds_for_one_object() -> None:
    source = world(task=Task.rec)
    for index in range(300):
        sample, objects = source.draw(index)
        (box,) = sample.truth.boxes
        assert [item.xyxy for item in objects if read(sample.question, item, objects)] == [box.xyxy]
        assert box.label == sample.question


@pytest.mark.parametrize("style", list(PhraseStyle))
def test_a_single_style_is_the_only_one(style: PhraseStyle) -> None:
    marks = {
        PhraseStyle.WORD: lambda w: len(w) == 1,
        PhraseStyle.ATTRIBUTE: lambda w: len(w) == 2,
        PhraseStyle.POSITION: lambda w: w[1] in ("on", "at") and len(w) == 4,
        PhraseStyle.RELATION: lambda w: w[1] in ("left", "right", "above", "below"),
        PhraseStyle.NEGATION: lambda w: w[1:4] == ["that", "is", "not"],
        PhraseStyle.RIDDLE: lambda w: w[:2] == ["the", "one"],
    }
    source = world(styles={style.value: 1.0}, objects=[2, 3])
    for index in range(30):
        assert all(marks[style](name.split()) for name in source.sample(index).targets)


def test_what_is_in_doubt_is_not_said() -> None:
    """A centre on the middle line is on no side; two objects side by side are not one above the other."""
    middle = SceneObject(colour="red", shape="circle", xyxy=(42.0, 0.0, 70.0, 28.0))
    beside = SceneObject(colour="blue", shape="square", xyxy=(77.0, 3.0, 105.0, 31.0))
    said = {phrase.text for phrase in phrases(PhraseStyle.POSITION, [middle, beside], 112)}
    assert "circle on the left" not in said
    assert "circle on the right" not in said
    assert {"circle at the top", "square on the right", "shape at the top"} <= said
    related = {phrase.text: phrase.count for phrase in phrases(PhraseStyle.RELATION, [middle, beside], 112)}
    assert related["circle left of the blue square"] == 1
    assert "circle above the blue square" not in related  # centres differ by 3 px: in doubt
    assert related["circle below the blue square"] == 0


def test_names_of_words() -> None:
    for names in (Names.all, Names.positive, Names.one_box):
        source = world(styles={"word": 1.0}, names=names, objects=[1, 3])
        for index in range(80):
            sample, objects = source.draw(index)
            shapes = [item.shape for item in objects]
            wanted = {
                Names.all: {"circle", "square", "triangle"},
                Names.positive: set(shapes),
                Names.one_box: {shape for shape in shapes if shapes.count(shape) == 1},
            }[names]
            assert set(sample.targets) == wanted
            assert wanted


def test_unique_descriptions_hold_once() -> None:
    source = world(present=[1, 1], absent=[0, 0], unique=True, objects=[2, 4])
    assert all(len(source.sample(index).truth.boxes) == 1 for index in range(150))


def test_one_style_names_the_subset() -> None:
    styles = {"attribute": 1.0, "position": 1.0, "relation": 1.0, "negation": 1.0}
    source = world(styles=styles, one_style=True, present=[1, 1], absent=[1, 1], objects=[2, 3])
    kinds = {"not": "negation", "on": "position", "at": "position", "left": "relationship"}
    kinds |= {"right": "relationship", "above": "relationship", "below": "relationship"}
    found = set()
    for index in range(120):
        sample = source.sample(index)
        found.add(sample.source)
        for name in sample.targets:
            words = name.split()
            mark = "not" if "not" in words else words[1]
            assert kinds.get(mark, "color") == sample.source
    assert found == {"color", "position", "relationship", "negation"}


def test_stripes_change_the_ground_and_nothing_else() -> None:
    plain, striped = (world(ground=ground, noise=0.0).sample(3) for ground in Ground)
    assert plain.truth == striped.truth
    a, b = (np.asarray(sample.images[0]).astype(int) for sample in (plain, striped))
    boxes = np.zeros((112, 112), dtype=bool)
    for item in world().draw(3)[1]:
        x1, y1, x2, y2 = (int(v) for v in item.xyxy)
        boxes[y1:y2, x1:x2] = True
    changed = (a != b).any(-1)
    assert changed[~boxes].mean() == pytest.approx(0.5, abs=0.1)
    rows = np.flatnonzero(changed[:, 0])
    assert set(rows // 8 % 2) == {0}


def test_splits_and_seeds() -> None:
    train, heldout = world(), world(Split.HELDOUT)
    assert train.fingerprint() != heldout.fingerprint() != world(Split.HELDOUT, seed=1).fingerprint()
    scenes = [
        {tuple(sorted((o.name, o.xyxy) for o in source.draw(index)[1])) for index in range(300)}
        for source in (train, heldout, world(Split.HELDOUT, seed=5))
    ]
    assert not scenes[0] & scenes[1]
    assert not scenes[0] & scenes[2]
    assert train.sample(7).truth == world().sample(7).truth


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"task": Task.point}, "task: these worlds have no such questions"),
        ({"styles": {}}, "styles: all weights are 0"),
        ({"styles": {"colour": 1.0}}, "styles.colour: no such style"),
        ({"names": Names.all}, "names: only the style word has a list of names"),
        ({"one_style": True}, "one_style: OVDEval has no sub-set for a style"),
        ({"present": [0, 1], "absent": [0, 1]}, "absent: a prompt could name nothing"),
        ({"present": [2, 1]}, r"present: must be \[min, max\]"),
    ],
)
def test_wrong_settings(changes, words) -> None:
    with pytest.raises(ConfigError, match=words):
        world(**changes)


def test_a_world_that_cannot_be_says_so() -> None:
    with pytest.raises(DataError, match="no scene fits the settings"):
        world(styles={"relation": 1.0}, objects=[1, 1], present=[1, 1]).sample(0)


@pytest.mark.parametrize(
    ("words", "key"),
    [
        (["reward=iou", "dataset=shapes_refcoco", "dataset.present=[2,2]"], "dataset.present"),
        (["reward=ap", "dataset=shapes_coco", "dataset.unique=true"], "dataset.unique"),
        (["reward=ap", "dataset=shapes_single", "dataset.difficulty=0.1"], "dataset.difficulty"),
    ],
)
def test_settings_that_nothing_reads_are_refused(words, key) -> None:
    with pytest.raises(ConfigError, match=key):
        typed(compose_words(words), words, multirun=False)


def test_the_out_of_domain_style_is_in_no_training_data() -> None:
    for option in ("shapes_d3", "shapes_coco", "shapes_small", "shapes_region", "shapes_ovdeval"):
        config = compose_run(["reward=ap", f"dataset={option}"]).dataset
        assert isinstance(config, DescribedConfig)
        assert config.styles.get("riddle", 0.0) == 0.0
    config = compose_run(["reward=iou", "dataset=shapes_refcoco"]).dataset
    assert isinstance(config, DescribedConfig)
    assert config.styles["riddle"] == 0.0
    assert config.ground is Ground.plain
