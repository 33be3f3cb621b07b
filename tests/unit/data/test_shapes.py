"""The synthetic worlds, judged from their pixels: boxes, phrases and absences by an independent reader."""

from __future__ import annotations

import hashlib
from collections import Counter
from dataclasses import dataclass

import numpy as np
import pytest
from scipy import ndimage

from groundrl.data.base import Split
from groundrl.data.scene import COLOURS, SHAPES, SceneObject, place_objects, render
from groundrl.data.shapes import Shapes, ShapesConfig
from groundrl.types import Sample, Task

CLEAR = {"noise": 0.0, "max_overlap": 0.0}
"""No noise and no overlap: every object can be read off the pixels."""


def world(split: Split = Split.TRAIN, **changes) -> Shapes:
    return ShapesConfig(**changes).build(split)


def ovd(split: Split = Split.TRAIN, **changes) -> Shapes:
    return ShapesConfig(task=Task.ovd, **changes).build(split)


@dataclass(frozen=True)
class Seen:
    colour: str
    shape: str
    box: tuple[int, int, int, int]

    @property
    def name(self) -> str:
        return f"{self.colour} {self.shape}"

    @property
    def centre(self) -> tuple[float, float]:
        return (self.box[0] + self.box[2]) / 2, (self.box[1] + self.box[3]) / 2

    @property
    def side(self) -> int:
        return self.box[2] - self.box[0]


def look(sample: Sample) -> list[Seen] | None:
    """What a noiseless image shows: one object per connected patch of a colour, its shape by how much of its
    box it fills. None where patches of one colour touch, so that the pixels do not tell."""
    pixels = np.asarray(sample.images[0])
    out = []
    for colour, rgb in COLOURS.items():
        mask = (pixels == rgb).all(-1)
        if not mask.any():
            continue
        patches, _ = ndimage.label(mask)
        for number, (rows, columns) in enumerate(ndimage.find_objects(patches), start=1):
            own = patches[rows, columns] == number
            box = (columns.start, rows.start, columns.stop, rows.stop)
            fill = own.mean()
            if own.shape[0] != own.shape[1]:
                return None
            shape = "square" if fill == 1 else "circle" if 0.7 < fill < 0.95 else "triangle"
            if shape == "triangle" and not 0.4 < fill < 0.65:
                return None
            out.append(Seen(colour=colour, shape=shape, box=box))
    return out


def test_every_shape_fills_its_box_to_the_pixel() -> None:
    rng = np.random.default_rng(0)
    for shape in SHAPES:
        for side in range(4, 113):
            for x, y in ((0, 0), (3, 8), (112 - side, 112 - side)):
                box = (float(x), float(y), float(x + side), float(y + side))
                item = SceneObject(colour="red", shape=shape, xyxy=box)
                pixels = np.asarray(render([item], 112 + 8, 0.0, rng))
                drawn = (pixels != pixels[119, 119]).any(-1)
                ys, xs = np.nonzero(drawn)
                assert (xs.min(), ys.min(), xs.max() + 1, ys.max() + 1) == tuple(int(v) for v in box)


def test_drawn_objects_and_true_boxes_agree_in_whole_samples() -> None:
    source = ovd(objects=[1, 4], size=[12, 40], none_fraction=0.0, **CLEAR)
    read = 0
    for index in range(150):
        sample = source.sample(index)
        seen = look(sample)
        if seen is None:
            continue
        read += 1
        assert sorted((item.name, item.box) for item in seen) == sorted(
            (box.label, tuple(int(v) for v in box.xyxy)) for box in sample.truth.boxes
        )
    assert read > 130


def test_a_sample_depends_on_seed_split_and_index_alone() -> None:
    first, second = world(), world()
    for index in (3, 0, 500):
        a, b = first.sample(index), second.sample(index)
        assert np.array_equal(np.asarray(a.images[0]), np.asarray(b.images[0]))
        assert (a.id, a.question, a.truth) == (b.id, b.question, b.truth)
    picture = first.sample(0).images[0].tobytes()
    assert picture != first.sample(1).images[0].tobytes()
    assert picture != world(seed=1).sample(0).images[0].tobytes()
    assert picture != world(Split.HELDOUT).sample(0).images[0].tobytes()
    ids = {s.sample(i).id for s in (world(), world(Split.HELDOUT), world(seed=1), ovd()) for i in range(3)}
    assert len(ids) == 12


def content(sample: Sample) -> tuple:
    """The objects of the scene, whatever is asked: what must not be in both splits."""
    seen = look(sample)
    assert seen is not None
    return tuple(sorted((item.name, item.box) for item in seen))


@pytest.mark.parametrize("task", [Task.rec, Task.ovd])
def test_train_and_heldout_never_share_a_scene(task) -> None:
    """A world with few scenes (one object, four places), so that draws of one split do repeat."""
    changes = {
        "task": task,
        "image_size": 56,
        "objects": [1, 1],
        "size": [28, 28],
        "grid": 28,
        "negatives": [0, 1],
    }
    styles = {"styles": {"word": 1.0, "attribute": 1.0}}
    seen: dict[Split, set] = {Split.TRAIN: set(), Split.HELDOUT: set()}
    draws = 0
    for split in Split:
        for seed in (0, 1, 2, 7):
            source = world(split, seed=seed, **changes, **styles, **CLEAR)
            for index in range(500):
                seen[split].add(content(source.sample(index)))
                draws += 1
    assert len(seen[Split.TRAIN]) + len(seen[Split.HELDOUT]) < draws / 2  # they do repeat
    assert len(seen[Split.HELDOUT]) > 3
    assert not seen[Split.TRAIN] & seen[Split.HELDOUT]


def test_default_worlds_never_share_an_image() -> None:
    digests: dict[Split, set[bytes]] = {Split.TRAIN: set(), Split.HELDOUT: set()}
    for split in Split:
        for seed in (0, 7):
            source = world(split, seed=seed, noise=0.0)
            for index in range(400):
                digests[split].add(hashlib.sha256(source.sample(index).images[0].tobytes()).digest())
    assert len(digests[Split.TRAIN]) > 790
    assert not digests[Split.TRAIN] & digests[Split.HELDOUT]


BESIDE = {
    "left of": lambda a, b: a.centre[0] < b.centre[0],
    "right of": lambda a, b: a.centre[0] > b.centre[0],
    "above": lambda a, b: a.centre[1] < b.centre[1],
    "below": lambda a, b: a.centre[1] > b.centre[1],
}


def referents(phrase: str, scene: list[Seen]) -> list[Seen]:
    """Every object that the plain meaning of a phrase fits."""
    if phrase.startswith("shape that is not "):
        return [item for item in scene if item.colour != phrase.rsplit(" ", 1)[1]]
    for words, holds in BESIDE.items():
        if f" {words} the " in phrase:
            shape, anchor = phrase.split(f" {words} the ")
            anchors = [item for item in scene if item.name == anchor]
            assert len(anchors) == 1, f"{phrase}: {len(anchors)} anchors"
            return [
                item
                for item in scene
                if item.shape == shape and item != anchors[0] and holds(item, anchors[0])
            ]
    return [item for item in scene if phrase in (item.shape, item.name)]


def misread(style: str, samples: int, **changes) -> tuple[int, int]:
    """How many phrases do not fit exactly the true object, of how many that could be read."""
    source = world(styles={style: 1.0}, objects=[1, 4], size=[12, 32], **CLEAR, **changes)
    wrong = read = 0
    for index in range(samples):
        sample = source.sample(index)
        scene = look(sample)
        if scene is None:
            continue
        read += 1
        fits = [item.box for item in referents(sample.question, scene)]
        wrong += fits != [tuple(int(v) for v in sample.truth.boxes[0].xyxy)]
        assert sample.truth.boxes[0].label == sample.question
        assert len(sample.truth.boxes) == 1
    return wrong, read


@pytest.mark.parametrize("style", ["word", "attribute", "negation"])
@pytest.mark.parametrize("difficulty", [0.0, 0.8])
def test_a_phrase_fits_one_object(style, difficulty) -> None:
    wrong, read = misread(style, 150, difficulty=difficulty)
    assert read > 120
    assert wrong == 0


def test_a_relation_fits_one_object() -> None:
    wrong, read = misread("relation", 400, difficulty=0.8)
    assert read > 300
    assert wrong == 0


def test_a_relation_holds_for_its_object() -> None:
    source = world(styles={"relation": 1.0}, objects=[2, 4], size=[12, 32], **CLEAR)
    said = Counter()
    for index in range(150):
        sample = source.sample(index)
        scene = look(sample)
        if scene is None:
            continue
        box = tuple(int(v) for v in sample.truth.boxes[0].xyxy)
        assert box in [item.box for item in referents(sample.question, scene)]
        (words,) = [words for words in BESIDE if f" {words} the " in sample.question]
        said[words] += 1
    assert all(said[words] > 5 for words in BESIDE)


def test_styles_come_in_their_proportions() -> None:
    source = world(styles={"word": 0.25, "attribute": 0.75}, objects=[1, 1])
    words = Counter(len(source.sample(index).question.split()) for index in range(400))
    assert set(words) == {1, 2}
    assert abs(words[1] / 400 - 0.25) < 4 * (0.25 * 0.75 / 400) ** 0.5


def test_detection_names_what_is_there_and_what_is_not() -> None:
    source = ovd(objects=[1, 4], size=[12, 40], negatives=[2, 3], none_fraction=0.25, **CLEAR)
    nothing = read = 0
    for index in range(300):
        sample = source.sample(index)
        scene = look(sample)
        if scene is None:
            continue
        read += 1
        present = {item.name for item in scene}
        labels = {box.label for box in sample.truth.boxes}
        absent = set(sample.targets) - present
        assert len(set(sample.targets)) == len(sample.targets)
        assert 2 <= len(absent) <= 3
        if not sample.truth.boxes:
            nothing += 1
            assert absent == set(sample.targets)
        else:
            assert labels == present == set(sample.targets) - absent
            assert len(sample.truth.boxes) == len(scene)
    assert read > 260
    assert abs(nothing / read - 0.25) < 4 * (0.25 * 0.75 / read) ** 0.5


def test_targets_are_shuffled() -> None:
    """Names that are present must not always stand first."""
    source = ovd(none_fraction=0.0, negatives=[1, 1], objects=[1, 1])
    first = [source.sample(i).targets[0] == source.sample(i).truth.boxes[0].label for i in range(100)]
    assert 30 < sum(first) < 70


@pytest.mark.parametrize("fraction", [0.0, 1.0])
def test_none_fraction_at_its_ends(fraction) -> None:
    source = ovd(none_fraction=fraction, negatives=[0, 2])
    for index in range(60):
        sample = source.sample(index)
        assert bool(sample.truth.boxes) == (fraction == 0.0)
        assert sample.targets  # a prompt always asks for something


def test_sizes_grid_and_counts_are_kept() -> None:
    source = ovd(objects=[2, 3], size=[21, 42], grid=7, none_fraction=0.0, image_size=140)
    counts = Counter()
    for index in range(150):
        sample = source.sample(index)
        assert sample.images[0].size == (140, 140)
        counts[len(sample.truth.boxes)] += 1
        for box in sample.truth.boxes:
            x1, y1, x2, y2 = box.xyxy
            assert x2 - x1 == y2 - y1
            assert 21 <= x2 - x1 <= 42
            assert all(v % 7 == 0 for v in box.xyxy)
            assert x1 >= 0 and y1 >= 0 and x2 <= 140 and y2 <= 140  # noqa: PT018
    assert set(counts) == {2, 3}
    sides = {b.xyxy[2] - b.xyxy[0] for i in range(150) for b in source.sample(i).truth.boxes}
    assert sides == {21.0, 28.0, 35.0, 42.0}


def test_places_reach_every_edge() -> None:
    source = world(objects=[1, 1], size=[28, 28], grid=28, image_size=56, styles={"attribute": 1.0})
    corners = Counter(source.sample(i).truth.boxes[0].xyxy[:2] for i in range(200))
    assert set(corners) == {(0.0, 0.0), (0.0, 28.0), (28.0, 0.0), (28.0, 28.0)}
    assert min(corners.values()) > 25


def test_overlap_is_limited() -> None:
    def most(limit: float) -> float:
        rng = np.random.default_rng(0)
        worst = 0.0
        for _ in range(150):
            scene = place_objects(
                rng, count=3, image_size=112, size=(30, 50), grid=1, max_overlap=limit, difficulty=0.0
            )
            for a in scene or []:
                for b in scene or []:
                    if a is not b:
                        w = max(0.0, min(a.xyxy[2], b.xyxy[2]) - max(a.xyxy[0], b.xyxy[0]))
                        h = max(0.0, min(a.xyxy[3], b.xyxy[3]) - max(a.xyxy[1], b.xyxy[1]))
                        areas = sum((o.xyxy[2] - o.xyxy[0]) * (o.xyxy[3] - o.xyxy[1]) for o in (a, b))
                        worst = max(worst, w * h / (areas - w * h))
        return worst

    assert most(0.0) == 0.0
    assert 0.1 < most(0.2) <= 0.2


def test_difficulty_makes_objects_alike() -> None:
    def alike(difficulty: float) -> float:
        rng = np.random.default_rng(0)
        shared = total = 0
        for _ in range(300):
            scene = place_objects(
                rng, count=2, image_size=112, size=(20, 30), grid=1, max_overlap=0.1, difficulty=difficulty
            )
            assert scene is not None
            shared += scene[0].colour == scene[1].colour or scene[0].shape == scene[1].shape
            total += 1
        return shared / total

    assert alike(1.0) == 1.0
    assert 0.3 < alike(0.0) < 0.6  # by chance: 1 - 5/6 * 2/3 = 0.44


def test_noise_has_the_asked_strength() -> None:
    quiet, loud = (np.asarray(world(noise=n).sample(0).images[0], dtype=float) for n in (0.0, 12.0))
    spread = (loud - quiet)[quiet == quiet[0, 0]].std()
    assert 11 < spread < 13
