"""`dataset=odinw`: files found by patterns, a source for each data set, every category or those present."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from groundrl.data.base import SampleSource, Split
from groundrl.data.odinw import Mode, OdinwConfig
from groundrl.data.overlap import image_ids
from groundrl.data.rows import OnError
from groundrl.errors import ConfigError, DataError, NoFileError
from groundrl.types import LabeledBox, Sample, Task

NAME = "annotations_without_background.json"
TRAIN = [f"**/train/{NAME}"]


def content(boxes: Sequence[tuple[int, int, list[float]]], images: int = 2) -> dict[str, Any]:
    """Images 1, 2, ... and boxes (image, category, xywh) of the categories 1 dog and 2 cat."""
    return {
        "images": [
            {"id": n, "file_name": f"{n}.png", "width": 40, "height": 30} for n in range(1, images + 1)
        ],
        "annotations": [
            {"id": n, "image_id": image, "category_id": category, "bbox": bbox}
            for n, (image, category, bbox) in enumerate(boxes, 1)
        ],
        "categories": [{"id": 1, "name": "dog"}, {"id": 2, "name": "cat"}],
    }


def put(root: Path, place: str, whole: dict[str, Any], colour: int = 0) -> Path:
    """The file with its pictures beside it."""
    file = root / place
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(whole), encoding="utf-8")
    for image in whole["images"]:
        Image.new("RGB", (40, 30), (colour, 0, 0)).save(file.parent / image["file_name"])
    return file


@pytest.fixture
def root(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> Path:
    """Three data sets; `tiled` has an image without boxes, pistols the layout of its own."""
    caplog.set_level(logging.WARNING)
    put(tmp_path, f"PascalVOC/valid/{NAME}", content([(1, 2, [1, 2, 10, 20]), (2, 1, [0, 0, 40, 30])]), 1)
    put(tmp_path, f"PascalVOC/train/{NAME}", content([(1, 1, [5, 5, 5, 5])], 1), 2)
    put(tmp_path, f"Drone/tiled/valid/{NAME}", content([(1, 1, [1, 1, 2, 2])]), 3)
    put(tmp_path, f"pistols/export/val_{NAME}", content([(1, 1, [3, 4, 5, 6])], 1), 4)
    put(tmp_path, f"pistols/export/train_{NAME}", content([(1, 1, [3, 4, 5, 6])], 1), 4)
    return tmp_path


def build(root: Path, split: Split = Split.HELDOUT, **settings: Any) -> SampleSource:
    return OdinwConfig(path=str(root), **settings).build(split)


def samples(source: SampleSource) -> list[Sample]:
    return [source.sample(index) for index in range(source.size or 0)]


def test_every_data_set_is_found_and_names_its_samples(root: Path, caplog: pytest.LogCaptureFixture) -> None:
    """By path: Drone, PascalVOC, pistols. xywh [1, 2, 10, 20] is [1, 2, 11, 22]."""
    source = build(root)
    found = samples(source)
    assert [one.source for one in found] == ["Drone", "Drone", "PascalVOC", "PascalVOC", "pistols"]
    assert [one.images[0].getpixel((0, 0)) for one in found] == [(n, 0, 0) for n in (3, 3, 1, 1, 4)]
    assert found[2].truth.boxes == (LabeledBox((1.0, 2.0, 11.0, 22.0), "cat"),)
    assert {(one.targets, one.task, one.split) for one in found} == {(("dog", "cat"), Task.ovd, "heldout")}
    assert found[1].truth.boxes == ()
    assert found[2].id == "PascalVOC/valid/annotations_without_background:1"
    assert len({one.id for one in found}) == 5
    assert source.tasks() == {Task.ovd}
    assert "assumed to hold COCO files" in caplog.text
    assert "trained and evaluated" not in caplog.text


def test_positive_asks_for_what_is_there(root: Path) -> None:
    found = samples(build(root, mode=Mode.positive))
    assert [one.targets for one in found] == [("dog",), ("cat",), ("dog",), ("dog",)]


def test_folders_that_share_the_first_are_data_sets_of_their_own(root: Path) -> None:
    put(root, f"Drone/large/valid/{NAME}", content([(1, 1, [1, 1, 2, 2])], 1))
    assert [one.source for one in samples(build(root))][:3] == ["Drone_large", "Drone_tiled", "Drone_tiled"]
    again = samples(build(root, heldout_patterns=[f"Drone/large/**/{NAME}"]))
    assert [one.source for one in again] == ["Drone"]
    both = samples(build(root, heldout_patterns=[f"**/{NAME}"], mode=Mode.positive))
    assert [one.source for one in both if "Pascal" in one.source] == ["PascalVOC_train"] + [
        "PascalVOC_valid"
    ] * 2
    assert [one.source for one in samples(build(root / "PascalVOC"))] == ["valid"] * 2
    file = put(root / "alone", NAME, content([(1, 1, [1, 1, 2, 2])], 1))
    assert samples(build(file.parent, heldout_patterns=[NAME]))[0].source == "alone"


def test_a_file_that_two_patterns_match_is_read_once(root: Path) -> None:
    twice = ["**/val_*.json", "pistols/export/val_*.json"]
    assert [one.source for one in samples(build(root, heldout_patterns=twice))] == ["pistols"]


def test_splits_and_what_is_trained_and_evaluated_on(root: Path, caplog: pytest.LogCaptureFixture) -> None:
    train = build(root, Split.TRAIN, patterns=TRAIN)
    assert [(one.source, one.truth.boxes[0].xyxy) for one in samples(train)] == [
        ("PascalVOC", (5, 5, 10, 10))
    ]
    assert "trained and evaluated" not in caplog.text
    assert build(root, Split.TRAIN).size == 5
    assert f"{root}: the same images are trained and evaluated on" in caplog.text
    limited = build(root, Split.TRAIN, train_size=3)
    assert [one.source for one in samples(limited)] == ["Drone", "Drone", "PascalVOC"]
    assert build(root, train_size=3).size == 5
    assert limited.fingerprint() != build(root, Split.TRAIN).fingerprint()
    assert image_ids(build(root, heldout_patterns=TRAIN)) == {str(root / "PascalVOC/train/1.png")}
    assert len(image_ids(build(root)) or ()) == 5


def test_a_root_without_any_match_says_where_was_looked(root: Path) -> None:
    with pytest.raises(NoFileError) as caught:
        build(root, heldout_patterns=["**/minival/a.json", "b.json"])
    assert caught.value.key == "dataset.heldout_patterns"
    assert f"looked for {root}/**/minival/a.json, {root}/b.json" in str(caught.value)
    with pytest.raises(NoFileError, match=r"dataset.patterns: no file is there"):
        build(root, Split.TRAIN, patterns=["*/valid"])  # a folder is no file
    with pytest.raises(NoFileError, match=r"dataset.path: no such folder"):
        build(root / "none")
    with pytest.raises(NoFileError, match=r"dataset.path: no such folder"):
        build(root / f"PascalVOC/valid/{NAME}")


@pytest.mark.parametrize("bad", [[], [""], ["/data/**/a.json"], ["**a/b.json"]])
def test_patterns_that_mean_nothing_are_refused(bad: list[str]) -> None:
    with pytest.raises(ConfigError, match=r"^patterns"):
        OdinwConfig(path="x", patterns=bad)
    with pytest.raises(ConfigError, match="heldout_patterns"):
        OdinwConfig(path="x", heldout_patterns=bad)


def test_a_wrong_image_names_its_file_and_row_and_can_be_skipped(
    root: Path, caplog: pytest.LogCaptureFixture
) -> None:
    whole = content([(1, 1, [1, 1, 2, 2]), (2, 1, [1, 1, 0, 2])], 2)
    file = put(root, f"Drone/tiled/valid/{NAME}", whole)
    with pytest.raises(DataError, match=re.escape(f"{file}, row 2: annotation 2 of image 2 has bbox")):
        build(root)
    assert [one.id.rpartition("/")[2] for one in samples(build(root, on_error=OnError.skip))][:2] == [
        "annotations_without_background:1",
        "annotations_without_background:1",
    ]
    assert f"{file}: 1 rows were skipped" in caplog.text
    whole["categories"][1]["name"] = "  "
    put(root, f"Drone/tiled/valid/{NAME}", whole)
    with pytest.raises(DataError, match="category 2 has no `id` and `name`"):
        build(root, on_error=OnError.skip)
