"""COCO files as samples, worked out by hand."""

from __future__ import annotations

import json
import logging
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
from tests.unit.data.coco_world import (
    BIRD,
    CAT,
    DOG_LARGE,
    DOG_SMALL,
    NAMES,
    PERSON,
    A,
    B,
    C,
    D,
    asked,
    build,
    by_id,
    content,
    write,
)

from groundrl.data.base import Split
from groundrl.data.coco import CocoConfig, Mode
from groundrl.data.coco_file import read_coco
from groundrl.data.coco_filters import Subset
from groundrl.types import LabeledBox, Task


def test_mode_all_asks_for_every_name(tmp_path: Path) -> None:
    source = build(tmp_path)
    assert asked(source) == {
        A: (NAMES, (DOG_LARGE, PERSON, DOG_SMALL)),
        B: (NAMES, (CAT,)),
        C: (NAMES, ()),
        D: (NAMES, (BIRD,)),
    }
    assert source.tasks() == {Task.ovd}
    sample = source.sample(0)
    assert (sample.images[0].size, sample.split, sample.source) == ((100, 80), "train", "coco")


def test_mode_positive_asks_for_what_is_there_in_file_order(tmp_path: Path) -> None:
    assert asked(build(tmp_path, mode=Mode.positive)) == {
        A: (("person", "dog"), (DOG_LARGE, PERSON, DOG_SMALL)),
        B: (("cat",), (CAT,)),
        D: (("bird",), (BIRD,)),
    }


def test_mode_one_box_per_category_leaves_out_the_two_dogs(tmp_path: Path) -> None:
    assert asked(build(tmp_path, mode=Mode.one_box_per_category)) == {
        A: (("person",), (PERSON,)),
        B: (("cat",), (CAT,)),
        D: (("bird",), (BIRD,)),
    }


def test_negatives_are_absent_names_and_no_crowds(tmp_path: Path) -> None:
    found = asked(build(tmp_path, mode=Mode.positive, negatives=[2, 2]))
    assert found[A] == (NAMES, (DOG_LARGE, PERSON, DOG_SMALL))  # only cat and bird are absent
    assert found[D] == (("dog", "cat", "bird"), (BIRD,))  # persons are there, as a crowd
    assert len(found[B][0]) == 3
    assert (len(found[C][0]), found[C][1]) == (2, ())  # nothing is there: the truth is None


def test_dropped_categories_are_no_negatives(tmp_path: Path) -> None:
    settings: dict[str, Any] = {"subset": Subset.filtered, "max_boxes": 1, "negatives": [9, 9]}
    assert asked(build(tmp_path, mode=Mode.positive, **settings))[A] == (("person", "cat", "bird"), (PERSON,))


# an image has 8000 px: the limit is 40 px at 0.005; DOG_SMALL has 25, BIRD 30, DOG_LARGE 400, PERSON 1200
@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"subset": Subset.filtered, "max_boxes": 2}, {A: {"person", "dog"}, B: {"cat"}, D: {"bird"}}),
        (
            {"subset": Subset.filtered, "max_boxes": 2, "keep_boundary": False},
            {A: {"person"}, B: {"cat"}, D: {"bird"}},
        ),
        ({"subset": Subset.pos_2}, {B: {"cat"}, D: {"bird"}}),
        ({"subset": Subset.pos_3, "max_boxes": 3}, {A: {"person", "dog"}, B: {"cat"}, D: {"bird"}}),
        ({"subset": Subset.pos_3, "max_boxes": 3, "keep_boundary": False}, {B: {"cat"}, D: {"bird"}}),
        ({"subset": Subset.small}, {D: {"bird"}}),  # one of the two dogs is not small
        ({"subset": Subset.small, "small_fraction": 0.0501}, {A: {"dog"}, D: {"bird"}}),
        ({"subset": Subset.regular}, {B: {"cat"}}),
        ({"subset": Subset.regular, "small_fraction": 0.00375}, {B: {"cat"}, D: {"bird"}}),  # 30 is not < 30
    ],
)
def test_subsets(tmp_path: Path, settings: dict[str, Any], expected: dict[str, set[str]]) -> None:
    found = asked(build(tmp_path, mode=Mode.positive, **settings))
    assert {key: set(targets) for key, (targets, _) in found.items()} == expected
    everything = asked(build(tmp_path))
    for key, (targets, boxes) in found.items():
        assert boxes == tuple(box for box in everything[key][1] if box.label in targets)


def test_ten_boxes_are_few_and_eleven_are_not(tmp_path: Path) -> None:
    data = content()
    for number in range(10 + 11):
        image = 12 if number < 10 else 13
        box = {"id": 100 + number, "image_id": image, "category_id": 7, "bbox": [number, 0, 2, 2]}
        data["annotations"].append(box)
    found = asked(build(tmp_path, data, mode=Mode.positive, subset=Subset.filtered))
    assert (found[B][0], len(found[B][1])) == (("cat", "bird"), 11)
    assert C not in found


def test_single_class_asks_for_one_category_at_a_time(tmp_path: Path) -> None:
    assert asked(build(tmp_path, mode=Mode.positive, subset=Subset.single_class)) == {
        f"{A}:dog": (("dog",), (DOG_LARGE, DOG_SMALL)),
        f"{A}:person": (("person",), (PERSON,)),
        f"{B}:cat": (("cat",), (CAT,)),
        f"{D}:bird": (("bird",), (BIRD,)),
    }


def test_choices_among_four_names(tmp_path: Path) -> None:
    found = by_id(build(tmp_path, task=Task.mcq))
    assert set(found) == {f"{A}:5", f"{A}:3", f"{A}:1", f"{B}:4", f"{D}:2"}
    labels = {f"{A}:5": "dog", f"{A}:3": "person", f"{A}:1": "dog", f"{B}:4": "cat", f"{D}:2": "bird"}
    for key, sample in found.items():
        first, *lines = sample.question.split("\n")
        assert [line[:3] for line in lines] == ["A. ", "B. ", "C. ", "D. "]
        assert {line[3:] for line in lines} == set(NAMES)
        assert f"{sample.truth.answer}. {labels[key]}" in lines
        assert first.endswith("from 0 to 1000 over the width and over the height of the image.")
        assert (sample.task, sample.targets, sample.truth.boxes) == (Task.mcq, (), ())
    # 10/100, 20/80, 40/100, 60/80 in thousandths; 0.5/100 = 5, 1.5/80 = 18.75, 5.5/100 = 55, 7.5/80 = 93.75
    assert found[f"{A}:3"].question.startswith("What is in the box [100, 250, 400, 750]? ")
    assert found[f"{D}:2"].question.startswith("What is in the box [5, 19, 55, 94]? ")


def test_the_true_letter_varies_and_others_are_drawn_from_all_names(tmp_path: Path) -> None:
    data = content()
    data["categories"] += [{"id": 200 + number, "name": f"thing {number}"} for number in range(6)]
    data["annotations"] = [
        {"id": 1 + number, "image_id": 11, "category_id": 3, "bbox": [number, 0, 2, 2]}
        for number in range(60)
    ]
    samples = by_id(build(tmp_path, data, task=Task.mcq)).values()
    assert {sample.truth.answer for sample in samples} == set("ABCD")
    shown = {line[3:] for sample in samples for line in sample.question.split("\n")[1:]}
    assert shown == {*NAMES, *(f"thing {number}" for number in range(6))}


@pytest.mark.parametrize(
    "settings", [{"task": Task.mcq}, {"mode": Mode.positive, "negatives": [0, 2]}], ids=["mcq", "negatives"]
)
def test_what_is_drawn_depends_on_id_and_seed_alone(tmp_path: Path, settings: dict[str, Any]) -> None:
    data = content()
    data["images"] += [{"id": n, "file_name": "a.png", "width": 100, "height": 80} for n in range(20, 40)]
    data["annotations"] += [
        {"id": 100 + n, "image_id": n, "category_id": 7, "bbox": [1, 1, 2, 2]} for n in range(20, 40)
    ]

    def drawn(data: object, seed: int) -> dict[str, Any]:
        found = by_id(build(tmp_path, data, seed=seed, **settings))
        return {key: (sample.targets, sample.question, sample.truth.answer) for key, sample in found.items()}

    turned = deepcopy(data)
    turned["images"].reverse()
    turned["annotations"].reverse()
    assert drawn(data, 0) == drawn(turned, 0)
    assert drawn(data, 0) != drawn(data, 1)
    turned["images"] = [image for image in turned["images"] if image["id"] != 30]
    turned["annotations"] = [one for one in turned["annotations"] if one["image_id"] != 30]
    fewer = drawn(turned, 0)
    assert fewer == {key: value for key, value in drawn(data, 0).items() if not key.startswith("coco:30")}
    assert len(fewer) > 20


def test_the_samples_of_an_image_are_held_out_together(tmp_path: Path) -> None:
    data = content()
    data["images"] += [{"id": n, "file_name": f"{n}.png", "width": 9, "height": 9} for n in range(100, 160)]
    data["annotations"] += [
        {"id": 10 * n + c, "image_id": n, "category_id": c, "bbox": [1, 1, 2, 2]}
        for n in range(100, 160)
        for c in (1, 3, 7)
    ]
    file = write(tmp_path, data)
    config = CocoConfig(path=str(file), mode=Mode.positive, subset=Subset.single_class)
    images = {s: [row.images[0] for row in config.build(s).rows] for s in Split}
    assert not set(images[Split.TRAIN]) & set(images[Split.HELDOUT])
    assert len(images[Split.TRAIN]) + len(images[Split.HELDOUT]) == 60 * 3 + 4
    assert images[Split.HELDOUT]


def test_names_that_are_one_label_are_one_category(tmp_path: Path) -> None:
    data = content()
    data["categories"][3]["name"] = " DOG"
    found = asked(build(tmp_path, data))
    assert found[D] == (("person", "dog", "cat"), (LabeledBox(BIRD.xyxy, "dog"),))


def test_crowds_are_counted_and_an_image_of_crowds_is_left_out(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    data = content()
    data["annotations"][3]["iscrowd"] = 1
    with caplog.at_level(logging.WARNING):
        assert set(asked(build(tmp_path, data))) == {A, B, C}
    assert "2 crowd annotations were left out" in caplog.text


def test_the_assumed_boundary_is_said(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    build(tmp_path, subset=Subset.filtered, keep_boundary=False)
    assert "exactly 10 are too many" in caplog.text


def test_a_small_file_is_read_once_until_it_changes(tmp_path: Path) -> None:
    file = tmp_path / "one.json"
    content = {"images": [], "annotations": [], "categories": [{"id": 1, "name": "dog"}]}
    file.write_text(json.dumps(content))
    first = read_coco(file)
    assert read_coco(file) is first
    content["categories"] = [{"id": 1, "name": "a cat"}]
    file.write_text(json.dumps(content))
    assert read_coco(file).names == ("a cat",)
