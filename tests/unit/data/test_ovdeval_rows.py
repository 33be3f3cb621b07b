"""`dataset=ovdeval`: one sub-set or all, hard negatives, sources that name the sub-set."""

from __future__ import annotations

import json
import logging
import re
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from groundrl.data.base import SampleSource, Split
from groundrl.data.ovdeval import SUBSETS, Mode, OvdevalConfig
from groundrl.data.rows import OnError
from groundrl.errors import ConfigError, DataError
from groundrl.evaluation.ovdeval import ASPECTS
from groundrl.types import Sample, Task

OFF, ON, LAPTOP = "computer without screen on", "computer with screen on", "laptop"


def picture(number: int, text: Any = (OFF,), negative: Any = (ON,), **more: Any) -> dict[str, Any]:
    own = {"id": number, "file_name": f"{number}.png", "height": 30, "width": 40}
    texts = {"text": text, "neg_text": negative}
    return own | {k: list(v) if isinstance(v, tuple) else v for k, v in texts.items() if v is not None} | more


def found(
    number: int, image: int, category: int = 0, bbox: Any = (1, 2, 10, 20), **more: Any
) -> dict[str, Any]:
    own = {"id": number, "image_id": image, "category_id": category, "iscrowd": 0, "area": 7}
    return own | {"bbox": list(bbox)} | more


def content(images: list[Any], annotations: list[Any]) -> dict[str, Any]:
    names = [{"supercategory": "object", "id": i, "name": name} for i, name in enumerate((OFF, ON, LAPTOP))]
    return {"categories": names, "annotations": annotations, "images": images}


SMALL = content(
    [picture(0), picture(1, (ON, LAPTOP), (OFF,)), picture(2, (), (LAPTOP, ON))],
    [found(0, 0), found(1, 1, 1, (0, 0, 40, 30)), found(2, 1, 2)],
)


@pytest.fixture
def folder(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> Path:
    """The owner's layout: annotations/SUBSET.json and images/SUBSET/."""
    caplog.set_level(logging.WARNING)
    (tmp_path / "annotations").mkdir()
    return tmp_path


def put(folder: Path, name: str, whole: Any) -> Path:
    file = folder / "annotations" / f"{name}.json"
    file.write_text(whole if isinstance(whole, str) else json.dumps(whole), encoding="utf-8")
    place = folder / "images" / name
    place.mkdir(parents=True, exist_ok=True)
    for number in range(3):
        Image.new("RGB", (40, 30)).save(place / f"{number}.png")
    return file


def build(path: Path, split: Split = Split.HELDOUT, **more: Any) -> SampleSource:
    own: dict[str, Any] = {"heldout_path": str(path)} | more
    return OvdevalConfig(path=str(path), **own).build(split)


def samples(source: SampleSource) -> list[Sample]:
    return [source.sample(index) for index in range(source.size or 0)]


def test_a_sub_set(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Ids from 0, positive names before the hard negatives; xywh [1, 2, 10, 20] is [1, 2, 11, 22]."""
    first, second, third = samples(build(put(folder, "negation", SMALL)))
    assert first.targets == (OFF, ON)
    assert [(box.label, box.xyxy) for box in first.truth.boxes] == [(OFF, (1.0, 2.0, 11.0, 22.0))]
    assert (first.id, first.task, first.source) == ("negation:0", Task.ovd, "negation")
    assert first.images[0].size == (40, 30)
    assert second.targets == (ON, LAPTOP, OFF)
    assert [box.label for box in second.truth.boxes] == [ON, LAPTOP]
    assert (third.targets, third.truth.boxes) == ((LAPTOP, ON), ())
    assert "negation.json: assumed to have `text` and `neg_text`" in caplog.text
    assert "trained and evaluated" not in caplog.text


def test_modes(folder: Path) -> None:
    whole = content(SMALL["images"][:2], SMALL["annotations"])
    file = put(folder, "color", whole)
    assert [s.targets for s in samples(build(file, mode=Mode.positive))] == [(OFF,), (ON, LAPTOP)]
    assert [s.targets for s in samples(build(file, mode=Mode.vocabulary))] == [(OFF, ON, LAPTOP)] * 2


def test_a_file_without_texts(folder: Path) -> None:
    """What is annotated holds; hard negatives are not made up."""
    whole = content([picture(0, None, None), picture(1, None, None)], SMALL["annotations"])
    file = put(folder, "celebrity", whole)
    assert [s.targets for s in samples(build(file, mode=Mode.positive))] == [(OFF,), (ON, LAPTOP)]
    assert [s.targets for s in samples(build(file, mode=Mode.vocabulary))] == [(OFF, ON, LAPTOP)] * 2
    with pytest.raises(
        DataError, match=r"celebrity.json, row 1: image 0 has no `neg_text`; use dataset.mode"
    ):
        build(file)


def test_all_sub_sets_in_one(folder: Path) -> None:
    for name in ("relationship", "celebrity", "negation"):
        put(folder, name, SMALL)
    put(folder, "coco", "not read")
    whole = build(folder / "annotations")
    made = samples(whole)
    assert [s.source for s in made] == ["celebrity"] * 3 + ["relationship"] * 3 + ["negation"] * 3
    assert [s.id for s in made[2:4]] == ["celebrity:2", "relationship:0"]
    assert whole.tasks() == {Task.ovd}
    limited = build(folder / "annotations", Split.TRAIN, train_size=4)
    assert [s.id for s in samples(limited)] == [s.id for s in made[:4]]
    print_before = whole.fingerprint()
    assert build(folder / "annotations").fingerprint() == print_before
    put(folder, "celebrity", content([picture(0)], [found(0, 0, bbox=(1, 2, 10, 21))]))
    assert build(folder / "annotations").fingerprint() != print_before


def test_sub_sets_are_those_that_are_averaged() -> None:
    assert tuple(name for names in ASPECTS.values() for name in names) == SUBSETS


def test_where_images_lie(folder: Path) -> None:
    file = put(folder, "logo", SMALL)
    (folder / "images").rename(folder / "pictures")
    with pytest.raises(DataError, match=r"0.png"):
        samples(build(file))
    at = str(folder / "pictures")
    assert len(samples(build(file, images=at))) == 3
    assert len(samples(build(file, images="nowhere", heldout_images=at))) == 3
    assert len(samples(build(file, Split.TRAIN, images=at, heldout_images="nowhere"))) == 3


def test_training_on_the_benchmark_is_said(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    file = put(folder, "logo", SMALL)
    build(file, Split.TRAIN)
    assert "logo.json: the same images are trained and evaluated on" in caplog.text
    caplog.clear()
    many = [picture(n) for n in range(80)]
    file = put(folder, "logo", content(many, [found(n, n) for n in range(80)]))
    train, held = (build(file, split, heldout_path=None) for split in Split)
    assert "trained and evaluated" not in caplog.text
    assert (train.size or 0) + (held.size or 0) == 80
    assert held.size


GOOD = [found(0, 0), found(1, 2)]


@pytest.mark.parametrize(
    ("image", "annotation", "problem"),
    [
        (picture(1, "dog"), None, "row 2: `text` is not a list of names"),
        (picture(1, (OFF, " ")), None, "row 2: `text` is not a list of names"),
        (picture(1, (OFF,), (5,)), None, "row 2: `neg_text` is not a list of names"),
        (
            picture(1, (OFF,), (LAPTOP, OFF.upper())),
            None,
            "row 2: 'COMPUTER WITHOUT SCREEN ON' of image 1 is in",
        ),
        (picture(1), found(7, 1, 2), "row 2: 'laptop' is annotated in image 1 but not in its `text`"),
        (picture(1, (), ()), None, "row 2: image 1 asks for nothing"),
        (picture(1, neg_text=None), None, "row 2: `neg_text` is not a list of names"),
        (picture(1), found(7, 1, 0, (1, 2, 0, 3)), "row 2: annotation 7 of image 1 has bbox [1, 2, 0, 3]"),
    ],
)
def test_bad_images(
    folder: Path, image: Any, annotation: Any, problem: str, caplog: pytest.LogCaptureFixture
) -> None:
    more = [annotation] if annotation else []
    file = put(folder, "material", content([picture(0), image, picture(2)], [*GOOD, *more]))
    with pytest.raises(DataError, match="material.json, " + re.escape(problem)):
        build(file)
    left = samples(build(file, on_error=OnError.skip))
    assert [s.id for s in left] == ["material:0", "material:2"]
    assert "1 rows were skipped" in caplog.text


def test_a_name_of_which_there_is_only_a_crowd_is_not_asked_for(folder: Path) -> None:
    """Image 1: a crowd of laptops beside one box of another name."""
    annotations = [found(1, 1, 1), found(2, 1, 2, iscrowd=1)]
    file = put(folder, "position", content([SMALL["images"][1]], annotations))
    assert samples(build(file))[0].targets == (ON, OFF)
    assert samples(build(file, mode=Mode.vocabulary))[0].targets == (OFF, ON)
    both = put(folder, "position", content([SMALL["images"][1]], [*annotations, found(3, 1, 2)]))
    assert samples(build(both))[0].targets == (ON, LAPTOP, OFF)


def test_names_and_folders_that_do_not_fit(folder: Path) -> None:
    with pytest.raises(ConfigError, match=r"dataset.path: is not named after a sub-set, got 'colour.json'"):
        build(put(folder, "colour", SMALL))
    with pytest.raises(ConfigError, match=r"dataset.heldout_path: has no file of a sub-set"):
        build(folder / "annotations")
    with pytest.raises(ConfigError, match=r"dataset.path: has no file of a sub-set"):
        build(folder / "annotations", Split.TRAIN)
    with pytest.raises(ConfigError, match=r"dataset.heldout_path: no such file"):
        build(folder / "nothing.json")
    with pytest.raises(DataError, match="is not JSON"):
        build(put(folder, "logo", "{"))
