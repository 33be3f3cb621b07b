"""What is said of COCO files and settings that cannot be used."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from PIL import Image
from tests.unit.data.coco_world import (
    B,
    C,
    D,
    asked,
    build,
    content,
)

from groundrl.data.base import Split
from groundrl.data.coco import CocoConfig, Mode
from groundrl.data.coco_filters import Subset
from groundrl.data.rows import OnError
from groundrl.errors import ConfigError, DataError
from groundrl.types import Task

WRONG = [
    ("images", 1, {"id": None}, 2, "image has no `id`"),
    ("images", 1, {"width": 0}, 2, "image 12 has no `width` and `height`"),
    ("images", 1, {"height": "80"}, 2, "image 12 has no `width` and `height`"),
    ("images", 2, {"file_name": ""}, 3, "image 13 has no `file_name`"),
    ("annotations", 1, {"category_id": 4}, 2, "annotation 4 of image 12 has unknown category_id 4"),
    ("annotations", 1, {"category_id": True}, 2, "unknown category_id True"),
    ("annotations", 1, {"iscrowd": "no"}, 2, "annotation 4 of image 12 has iscrowd 'no'"),
    ("annotations", 1, {"id": None}, 2, "annotation None of image 12 has no `id` of its own"),
    ("annotations", 2, {"image_id": 99}, 3, "annotation is of image 99, which is not in `images`"),
    ("annotations", 1, {"bbox": [0, 0, 0, 5]}, 2, "annotation 4 of image 12 has bbox [0, 0, 0, 5]"),
    ("annotations", 1, {"bbox": [0, 0, 5, -5]}, 2, "bbox [0, 0, 5, -5]"),
    ("annotations", 1, {"bbox": [0, 0, 101.5, 5]}, 2, "which is no box in 100 x 80"),
    ("annotations", 1, {"bbox": [0, 0, 5, 81.5]}, 2, "bbox [0, 0, 5, 81.5]"),
    ("annotations", 1, {"bbox": [-1.5, 0, 5, 5]}, 2, "bbox [-1.5, 0, 5, 5]"),
    ("annotations", 1, {"bbox": [100.2, 0, 0.5, 5]}, 2, "bbox [100.2, 0, 0.5, 5]"),
    ("annotations", 1, {"bbox": [0, 0, 5]}, 2, "bbox [0, 0, 5]"),
    ("annotations", 1, {"bbox": [0, 0, "5", 5]}, 2, "bbox [0, 0, '5', 5]"),
    ("annotations", 1, {"bbox": [0, 0, True, 5]}, 2, "bbox [0, 0, True, 5]"),
    ("annotations", 1, {"bbox": [0, 0, float("nan"), 5]}, 2, "bbox [0, 0, nan, 5]"),
    ("annotations", 1, {"bbox": [0, 0, 10**400, 5]}, 2, "bbox [0, 0, 1000"),
    ("annotations", 1, {"bbox": None}, 2, "has bbox None"),
]


@pytest.mark.parametrize(("part", "index", "change", "row", "problem"), WRONG)
def test_wrong_rows_are_named_or_skipped(
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    part: str,
    index: int,
    change: dict[str, Any],
    row: int,
    problem: str,
) -> None:
    data = content()
    data[part][index].update(change)
    with pytest.raises(DataError, match=re.escape(problem)) as caught:
        build(tmp_path, data)
    assert str(caught.value).startswith(f"{tmp_path}/coco.json, row ")
    assert caught.value.row == row
    kept = set(asked(build(tmp_path, data, on_error=OnError.skip)))
    assert D in kept
    lost = {"images": {1: B, 2: C}, "annotations": {1: B, 2: ""}}[part][index]
    assert lost not in kept
    assert re.search(r"coco\.json: [12] rows were skipped; first: .*row \d: ", caplog.text)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (b"", "is not JSON"),
        (b"[" * 100_000, "is not JSON"),
        (b"[]", "is a list, not an object"),
        (b'{"images": [], "annotations": []}', "`categories` is not a list of objects"),
        (b'{"images": {}, "annotations": [], "categories": []}', "`images` is not a list of objects"),
        (b'{"images": [], "annotations": [1], "categories": []}', "`annotations` is not a list of objects"),
        (b'{"images": [], "annotations": [], "categories": []}', "has no categories"),
        (
            b'{"images": [], "annotations": [], "categories": [{"id": 1}]}',
            "category 1 has no `id` and `name`",
        ),
        (
            b'{"images": [], "annotations": [], "categories": [{"id": 1, "name": "a"}, '
            b'{"id": "1", "name": "b"}]}',
            "category id 1 occurs twice",
        ),
        (b'{"images": [], "annotations": [], "categories": [{"id": 1, "name": "a"}]}', "has no rows"),
        ('{"images": "é"}'.encode("latin-1"), "is not UTF-8"),
    ],
)
def test_wrong_files_are_named_even_when_rows_may_be_skipped(
    tmp_path: Path, text: bytes, problem: str
) -> None:
    file = tmp_path / "x.json"
    file.write_bytes(text)
    with pytest.raises(DataError, match=re.escape(f"{file}: {problem}")):
        CocoConfig(path=str(file), on_error=OnError.skip).build(Split.TRAIN)


def test_a_file_of_corners_is_refused_as_a_whole(tmp_path: Path) -> None:
    """As xywh three of them end outside: 50 + 70 > 100, 60 + 70 > 100, 60 + 75 > 80."""
    data = content()
    corners = ([50, 50, 70, 70], [0, 0, 99.5, 80], [60, 20, 70, 60], [10, 60, 50, 75], [0, 0, 5, 5])
    for annotation, box in zip(data["annotations"], corners, strict=False):
        annotation["bbox"] = box
    with pytest.raises(DataError, match=r"3 of 5 boxes do not lie in their image; .*\[x1, y1, x2, y2\]\?"):
        build(tmp_path, data, on_error=OnError.skip)


def test_repeated_annotation_ids_lose_both_images(tmp_path: Path) -> None:
    data = content()
    data["annotations"][1]["id"] = "5"
    with pytest.raises(DataError, match="row 1: annotation 5 of image 11 has no `id` of its own"):
        build(tmp_path, data)
    assert set(asked(build(tmp_path, data, on_error=OnError.skip))) == {C, D}


def test_repeated_image_ids_are_refused(tmp_path: Path) -> None:
    data = content()
    data["images"][2]["id"] = "11"
    with pytest.raises(DataError, match=r"row 3: image id 11 is that of image 1"):
        build(tmp_path, data)


def test_an_image_smaller_than_its_file_says(tmp_path: Path) -> None:
    source = build(tmp_path)
    Image.new("RGB", (60, 60)).save(tmp_path / "a.png")
    with pytest.raises(DataError, match=r"row 1: box .* lies outside its 60 x 60 image"):
        source.sample(0)


def test_a_choice_needs_four_names(tmp_path: Path) -> None:
    data = content()
    data["categories"][3]["name"] = "dog"
    with pytest.raises(DataError, match="has 3 categories, but a choice is among 4"):
        build(tmp_path, data, task=Task.mcq)


@pytest.mark.parametrize(
    ("settings", "key"),
    [
        ({"task": Task.rec}, "task"),
        ({"max_boxes": 0}, "max_boxes"),
        ({"small_fraction": 0.0}, "small_fraction"),
        ({"small_fraction": float("nan")}, "small_fraction"),
        ({"mode": Mode.positive, "negatives": [2, 1]}, "negatives"),
        ({"mode": Mode.positive, "negatives": [1]}, "negatives"),
        ({"negatives": [0, 1]}, "negatives"),
        ({"seed": -1}, "seed"),
        ({"task": Task.mcq, "mode": Mode.positive}, "mode"),
        ({"task": Task.mcq, "subset": Subset.single_class}, "subset"),
        ({"subset": Subset.single_class}, "mode"),
    ],
)
def test_settings_that_cannot_be_used(settings: dict[str, Any], key: str) -> None:
    with pytest.raises(ConfigError) as caught:
        CocoConfig(path="x.json", **settings)
    assert caught.value.key == key
