"""`dataset=d3`: descriptions that hold, seeded negatives, images in which nothing described is."""

from __future__ import annotations

import json
import logging
import re
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from groundrl.data.base import Split
from groundrl.data.d3 import D3Config
from groundrl.data.rows import OnError, Row
from groundrl.errors import ConfigError, DataError
from groundrl.types import Task

NAMES = ("a dog on a leash", "a dog not on a leash", "a person without a helmet", "a hat that is not blue")
"""Category ids are the sentence ids, from 1; three of them are absence descriptions."""


def found(number: int, image: int, category: int, bbox: Any = (1, 2, 10, 20), **more: Any) -> dict[str, Any]:
    own = {"id": number, "image_id": image, "category_id": category, "iscrowd": 0, "area": 1}
    return own | {"bbox": list(bbox) if isinstance(bbox, tuple) else bbox} | more


def picture(number: int) -> dict[str, Any]:
    return {"id": number, "file_name": f"{number}.png", "width": 40, "height": 30}


def content(images: int, annotations: list[Any], names: tuple[str, ...] = NAMES) -> dict[str, Any]:
    return {
        "images": [picture(number) for number in range(images)],
        "categories": [{"id": i, "name": name} for i, name in enumerate(names, start=1)],
        "annotations": annotations,
    }


SMALL = content(
    3, [found(1, 0, 2), found(2, 0, 2, (20, 2, 5, 5)), found(3, 0, 3), found(4, 1, 1, (0, 0, 40, 30))]
)
"""Image 0: two free dogs, one of the boxes a person too; image 1: one dog on a leash; image 2: nothing."""


@pytest.fixture
def folder(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> Path:
    caplog.set_level(logging.WARNING)
    for number in range(3):
        Image.new("RGB", (40, 30)).save(tmp_path / f"{number}.png")
    return tmp_path


def config(folder: Path, whole: Any, **more: Any) -> D3Config:
    file = folder / "d3_full_annotations.json"
    file.write_text(whole if isinstance(whole, str) else json.dumps(whole), encoding="utf-8")
    own: dict[str, Any] = {"heldout_path": str(file), "images": str(folder)} | more
    return D3Config(path=str(file), **own)


def rows(folder: Path, whole: Any, **more: Any) -> dict[str, Row]:
    return {row.images[0]: row for row in config(folder, whole, **more).build(Split.TRAIN).rows}


def test_a_sample_has_what_holds_and_all_its_boxes(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Without negatives; xywh [1, 2, 10, 20] is xyxy [1, 2, 11, 22]. Image 2 gives no sample."""
    source = config(folder, SMALL, negatives=[0, 0]).build(Split.TRAIN)
    assert source.size == 2
    first, second = source.sample(0), source.sample(1)
    assert first.targets == (NAMES[1], NAMES[2])
    assert [(box.label, box.xyxy) for box in first.truth.boxes] == [
        (NAMES[1], (1.0, 2.0, 11.0, 22.0)),
        (NAMES[1], (20.0, 2.0, 25.0, 7.0)),
        (NAMES[2], (1.0, 2.0, 11.0, 22.0)),
    ]
    assert (first.task, first.id, first.source) == (Task.ovd, "d3_full_annotations:0", "d3")
    assert second.targets == (NAMES[0],)
    assert second.truth.boxes[0].xyxy == (0.0, 0.0, 40.0, 30.0)
    assert "d3_full_annotations.json: assumed to be a COCO instances file" in caplog.text


def test_negatives_are_the_descriptions_that_do_not_hold(folder: Path) -> None:
    """Image 0 lacks two of four: [2, 2] asks for all of them, in the order of the categories; [3, 3] for no
    more than there are."""
    for negatives in ([2, 2], [3, 3]):
        assert rows(folder, SMALL, negatives=negatives)["0.png"].targets == NAMES
    assert rows(folder, SMALL, negatives=[3, 3])["1.png"].targets == NAMES
    assert [box.label for box in rows(folder, SMALL)["1.png"].boxes] == [NAMES[0]]


def test_an_empty_image_gives_negatives_only_where_asked(folder: Path) -> None:
    assert set(rows(folder, SMALL)) == {"0.png", "1.png"}
    empty = rows(folder, SMALL, include_empty=True, negatives=[4, 4])["2.png"]
    assert (empty.targets, empty.boxes) == (NAMES, ())
    assert len(rows(folder, SMALL, include_empty=True, negatives=[1, 1])["2.png"].targets) == 1


def test_a_crowd_is_neither_truth_nor_negative(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Image 1 has a crowd of hats: three names are left, of which one holds."""
    whole = {**SMALL, "annotations": [*SMALL["annotations"], found(9, 1, 4, iscrowd=1)]}
    assert rows(folder, whole, negatives=[3, 3])["1.png"].targets == NAMES[:3]
    assert "1 crowd annotations were left out" in caplog.text
    only = content(3, [found(1, 0, 1), found(9, 1, 4, iscrowd=1)])
    assert set(rows(folder, only, include_empty=True)) == {"0.png", "2.png"}


MANY = tuple(f"thing {number:02d}" for number in range(30))
WIDE = content(60, [found(n, n, 1 + n % 30) for n in range(60)], MANY)


def test_negatives_are_seeded_by_the_image_and_not_by_the_order(folder: Path) -> None:
    made = rows(folder, WIDE)
    counts = {len(row.targets) - 1 for row in made.values()}
    assert counts == {1, 2, 3}
    assert all(set(row.targets) > {row.boxes[0].label} for row in made.values())
    turned = {key: WIDE[key][::-1] for key in WIDE}
    again = rows(folder, turned)
    assert {name: set(row.targets) for name, row in made.items()} == {
        name: set(row.targets) for name, row in again.items()
    }
    fewer = {**WIDE, "images": WIDE["images"][30:], "annotations": WIDE["annotations"][30:]}
    assert rows(folder, fewer) == {
        name: Row(**{f: getattr(row, f) for f in Row.__dataclass_fields__} | {"number": row.number - 30})
        for name, row in made.items()
        if int(name.split(".")[0]) >= 30
    }
    other = rows(folder, WIDE, seed=1)
    assert sum(row.targets != made[name].targets for name, row in other.items()) > 50
    assert len({row.targets[-1] for row in made.values()}) > 5


def test_descriptions_that_are_one_label_are_one_target(folder: Path) -> None:
    whole = content(3, [found(1, 0, 1), found(2, 0, 2)], ("a dog", "A  dog", "a cat"))
    row = rows(folder, whole, negatives=[2, 2])["0.png"]
    assert row.targets == ("a dog", "a cat")
    assert [box.label for box in row.boxes] == ["a dog", "a dog"]


GOOD = [found(n, n, 1) for n in range(3)]


@pytest.mark.parametrize(
    ("bad", "problem"),
    [
        (found(9, 1, 1, (1, 2, 0, 5)), "row 2: annotation 9 of image 1 has bbox [1, 2, 0, 5]"),
        (found(9, 1, 1, (1, 2, 99, 5)), "row 2: annotation 9 of image 1 has bbox [1, 2, 99, 5]"),
        (found(9, 1, 1, (1, 2, float("nan"), 5)), "row 2: annotation 9 of image 1 has bbox"),
        (found(9, 1, 1, None), "row 2: annotation 9 of image 1 has bbox None"),
        (found(9, 1, 77), "row 2: annotation 9 of image 1 has unknown category_id 77"),
        (found(9, 55, 1), "annotation is of image 55"),
    ],
)
def test_bad_annotations(folder: Path, bad: Any, problem: str, caplog: pytest.LogCaptureFixture) -> None:
    whole = content(3, [*GOOD, bad])
    with pytest.raises(DataError, match=r"d3_full_annotations.json, .*" + re.escape(problem)):
        config(folder, whole).build(Split.TRAIN)
    left = rows(folder, whole, on_error=OnError.skip)
    assert set(left) >= {"0.png", "2.png"}
    assert "1 rows were skipped" in caplog.text


def test_a_file_in_the_other_order_is_refused(folder: Path) -> None:
    """[20, 10, 38, 28] as xywh ends at x = 58 of 40."""
    whole = content(3, [found(n, n, 1, (20, 10, 38, 28)) for n in range(3)])
    with pytest.raises(DataError, match=r"3 of 3 boxes.*is the order \[x1, y1, x2, y2\]"):
        config(folder, whole, on_error=OnError.skip).build(Split.TRAIN)


def test_no_coco_file(folder: Path) -> None:
    with pytest.raises(DataError, match="is not JSON"):
        config(folder, "{").build(Split.TRAIN)
    with pytest.raises(DataError, match="is a list, not an object"):
        config(folder, "[]").build(Split.TRAIN)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ({"negatives": [1]}, "negatives: must be"),
        ({"negatives": [3, 1]}, "negatives: must be"),
        ({"negatives": [-1, 1]}, "negatives: must be"),
        ({"negatives": [0, 1], "include_empty": True}, r"negatives: must be >= \[1, 1\]"),
        ({"seed": -1}, "seed: must be >= 0"),
    ],
)
def test_settings_that_cannot_be(words: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        D3Config(path="x", **words)
