"""`dataset=refcoco`: the release (pickle and instances) and the JSON conversions."""

from __future__ import annotations

import json
import logging
import pickle
import re
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from groundrl.data.base import Split
from groundrl.data.refcoco import Format, RefcocoConfig, Sentences
from groundrl.data.refcoco_json import BoxOrder
from groundrl.data.rows import OnError
from groundrl.errors import ConfigError, DataError
from groundrl.types import Task

INSTANCES = {
    "images": [
        {"id": 9, "file_name": "a.png", "width": 40, "height": 30},
        {"id": 7, "file_name": "b.png", "width": 20, "height": 20},
    ],
    "categories": [{"id": 1, "name": "person"}],
    "annotations": [
        {"id": 11, "image_id": 9, "category_id": 1, "iscrowd": 0, "bbox": [1, 2, 10, 20]},
        {"id": 12, "image_id": 9, "category_id": 1, "iscrowd": 0, "bbox": [30.5, 0, 9.6, 5]},
        {"id": 13, "image_id": 7, "category_id": 1, "iscrowd": 0, "bbox": [0, 0, 20, 20]},
        {"id": 14, "image_id": 7, "category_id": 1, "iscrowd": 1, "bbox": [0, 0, 5, 5]},
        {"id": 15, "image_id": 7, "category_id": 1, "iscrowd": 0, "bbox": [0, 0, 0, 5]},
    ],
}


def ref(number: int, ann: Any, split: Any, *texts: str, **more: Any) -> dict[str, Any]:
    sentences = [
        {"sent_id": 10 * number + i, "sent": text, "raw": text.upper(), "tokens": text.split()}
        for i, text in enumerate(texts)
    ]
    # as in the release, a ref's own file name carries the annotation id and is no file
    own = {"ref_id": number, "ann_id": ann, "split": split, "sentences": sentences}
    return own | {"file_name": f"a_{ann}.png", "image_id": 9, "category_id": 1, "sent_ids": []} | more


REFS = [
    ref(0, 11, "train", "left man", "the man on the left"),
    ref(1, 12, "val", "right edge"),
    ref(2, 13, "testA", "all of it"),
]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    Image.new("RGB", (40, 30)).save(tmp_path / "a.png")
    Image.new("RGB", (20, 20)).save(tmp_path / "b.png")
    (tmp_path / "instances.json").write_text(json.dumps(INSTANCES), encoding="utf-8")
    return tmp_path


def release(folder: Path, refs: Any = REFS, **more: Any) -> RefcocoConfig:
    file = folder / "refs(unc).p"
    file.write_bytes(pickle.dumps(refs, 2))
    return RefcocoConfig(path=str(file), **more)


def told(config: RefcocoConfig, split: Split) -> list[tuple[Any, ...]]:
    source = config.build(split)
    samples = [source.sample(index) for index in range(source.size or 0)]
    return [(s.question, s.truth.boxes[0].xyxy, s.images[0].size, s.task, s.source) for s in samples]


def test_release_gives_one_sample_a_sentence(folder: Path) -> None:
    """xywh [1, 2, 10, 20] is xyxy [1, 2, 11, 22]; 30.5 + 9.6 = 40.1 is clipped to the width 40."""
    config = release(folder)
    left = ((1.0, 2.0, 11.0, 22.0), (40, 30), Task.rec, "refcoco")
    assert told(config, Split.TRAIN) == [("left man", *left), ("the man on the left", *left)]
    assert told(config, Split.HELDOUT) == [
        ("right edge", (30.5, 0.0, 40.0, 5.0), (40, 30), Task.rec, "refcoco")
    ]
    assert config.heldout_path is None
    ids = [row.id for row in config.build(Split.TRAIN).rows]
    assert ids == ["refs(unc):0:0", "refs(unc):0:1"]


def test_release_settings(folder: Path) -> None:
    first = release(folder, sentences=Sentences.first, heldout_split="testA", task=Task.point)
    assert [row[0] for row in told(first, Split.TRAIN)] == ["left man"]
    assert told(first, Split.HELDOUT) == [
        ("all of it", (0.0, 0.0, 20.0, 20.0), (20, 20), Task.point, "refcoco")
    ]
    moved = folder / "elsewhere.json"
    (folder / "instances.json").rename(moved)
    with pytest.raises(ConfigError, match=r"dataset.instances: no such file.*instances.json"):
        release(folder).build(Split.TRAIN)
    assert len(told(release(folder, instances=str(moved)), Split.TRAIN)) == 2
    with pytest.raises(DataError, match="no refs of split 'testB'; its splits: train, val, testA"):
        release(folder, instances=str(moved), heldout_split="testB").build(Split.HELDOUT)


def test_refs_may_stand_in_json(folder: Path) -> None:
    file = folder / "refs.json"
    file.write_text(json.dumps(REFS), encoding="utf-8")
    assert told(RefcocoConfig(path=str(file)), Split.TRAIN) == told(release(folder), Split.TRAIN)


def test_an_unused_annotation_that_is_wrong_does_no_harm(folder: Path) -> None:
    """Annotation 15 has no width, but only 13 of the same image is referred to."""
    assert len(told(release(folder, train_split="testA"), Split.TRAIN)) == 1


@pytest.mark.parametrize(
    ("bad", "problem"),
    [
        ([1], "row 4: is a list, not an object"),
        ({"split": "train"}, "row 4: has no `ref_id`"),
        (ref(3, 11, None, "x"), "row 4: has split None, which is no text"),
        (ref(3, 99, "train", "x"), "row 4: annotation 99 is not in instances.json"),
        (ref(3, True, "train", "x"), "row 4: annotation True is not in"),
        (ref(3, [11], "train", "x"), "row 4: annotation [11] is not in"),
        (ref(3, 14, "train", "x"), "row 4: annotation 14 is a crowd region"),
        (ref(3, 15, "train", "x"), "instances.json, row 2: annotation 15 of image 7 has bbox [0, 0, 0, 5]"),
        (ref(3, 11, "train"), "row 4: `sentences` must be a list with at least one"),
        (ref(3, 11, "train", sentences="x"), "row 4: `sentences` must be a list"),
        (ref(3, 11, "train", "x", " "), "row 4: sentence 2 has no text `sent`"),
        (ref(3, 11, "train", sentences=[{"sent": 5}]), "row 4: sentence 1 has no text `sent`"),
    ],
)
def test_bad_refs(folder: Path, bad: Any, problem: str, caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(DataError, match=re.escape(problem)):
        release(folder, [*REFS, bad]).build(Split.TRAIN)
    skipping = release(folder, [*REFS, bad], on_error=OnError.skip)
    assert len(told(skipping, Split.TRAIN)) == 2
    assert "1 rows were skipped" in caplog.text


def test_a_pickle_of_something_else(folder: Path) -> None:
    with pytest.raises(DataError, match="holds a dict at the top, expected a list of refs"):
        release(folder, {"refs": []}).build(Split.TRAIN)
    file = folder / "refs(google).p"
    file.write_bytes(pickle.dumps([{1}], 4))
    with pytest.raises(DataError, match="holds a set, but only plain data"):
        RefcocoConfig(path=str(file)).build(Split.TRAIN)


def line(number: int, **more: Any) -> dict[str, Any]:
    """As VLM-R1 writes it: the whole prompt in `problem`, the expression in `normal_caption`."""
    return {
        "image": "a.png",
        "problem": f"Please provide the box of: thing {number}",
        "normal_caption": f"thing {number}",
        "solution": [1, 2, 30, 20],
        "normalized_solution": [25, 66, 750, 666],
        "width": 40,
        "height": 30,
    } | more


def conversion(folder: Path, rows: Any, **more: Any) -> RefcocoConfig:
    file = folder / "refcoco_val.json"
    file.write_text(rows if isinstance(rows, str) else json.dumps(rows), encoding="utf-8")
    own: dict[str, Any] = {"heldout_path": str(file)} | more
    return RefcocoConfig(path=str(file), format=Format.json, **own)


def test_conversion_of_vlm_r1(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    config = conversion(folder, [line(0), line(1, image="b.png", solution=[0.5, 0, 19, 9], width=None)])
    assert told(config, Split.HELDOUT) == [
        ("thing 0", (1.0, 2.0, 30.0, 20.0), (40, 30), Task.rec, "refcoco"),
        ("thing 1", (0.5, 0.0, 19.0, 9.0), (20, 20), Task.rec, "refcoco"),
    ]
    assert "refcoco_val.json: assumed to be written as VLM-R1's" in caplog.text


@pytest.mark.parametrize(
    ("fields", "texts"),
    [
        ({"normal_caption": None}, ["Please provide the box of: thing 5"]),
        ({"normal_caption": None, "sentence": " the cup "}, ["the cup"]),
        ({"normal_caption": None, "sentence": "x", "sentences": ["a", "b"]}, ["a", "b"]),
        ({"normal_caption": None, "sentences": [{"sent": "a"}, {"sent": "b"}]}, ["a", "b"]),
    ],
)
def test_where_a_conversion_has_its_sentences(folder: Path, fields: Any, texts: list[str]) -> None:
    rows = [line(5, **fields)]
    assert [row[0] for row in told(conversion(folder, rows), Split.HELDOUT)] == texts
    first = conversion(folder, rows, sentences=Sentences.first)
    assert [row[0] for row in told(first, Split.HELDOUT)] == texts[:1]


def test_other_names_and_order(folder: Path) -> None:
    """xywh [1, 2, 30, 20] is [1, 2, 31, 22]."""
    row = {"file_name": "a.png", "sentence": "x", "bbox": [1, 2, 30, 20], "height": 30, "width": 40}
    config = conversion(folder, [row], box_order=BoxOrder.xywh)
    assert told(config, Split.HELDOUT)[0][1] == (1.0, 2.0, 31.0, 22.0)


GOOD = [line(number) for number in range(8)]


@pytest.mark.parametrize(
    ("bad", "problem"),
    [
        ([1], "row 9: is a list, not an object"),
        (line(9, image=5), "row 9: has no path of an image"),
        (line(9, image=" "), "row 9: has no path of an image"),
        (line(9, solution=[30, 2, 1, 20]), "row 9: box [30, 2, 1, 20] is no xyxy box in its image"),
        (line(9, solution=[1, 2, 1, 20]), "row 9: box [1, 2, 1, 20] is no xyxy"),
        (line(9, solution=[1, 2, 42, 20]), "row 9: box [1, 2, 42, 20] is no xyxy"),
        (line(9, solution=[-2, 2, 30, 20]), "row 9: box [-2, 2, 30, 20] is no xyxy"),
        (line(9, solution=[1, 2, 3]), "row 9: box [1, 2, 3] is no xyxy"),
        (line(9, solution=[True, 2, 3, 4]), "row 9: box [True, 2, 3, 4] is no xyxy"),
        (line(9, solution=[float("nan"), 2, 3, 4]), "row 9: box [nan, 2, 3, 4] is no xyxy"),
        (line(9, solution=[1, 2, 10**400, 4]), "is no xyxy"),
        (line(9, solution="<answer>[1, 2, 3, 4]</answer>"), "row 9: box '<answer>[1, 2, 3, 4]</answer>'"),
        (line(9, solution=None), "row 9: box None is no xyxy"),
        (line(9, normal_caption=" "), "row 9: has no sentence"),
        (line(9, normal_caption=["a", 3]), "row 9: has no sentence"),
        (line(9, normal_caption=[]), "row 9: has no sentence"),
    ],
)
def test_bad_records(folder: Path, bad: Any, problem: str, caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(DataError, match=re.escape(problem)):
        conversion(folder, [*GOOD, bad]).build(Split.HELDOUT)
    skipping = conversion(folder, [*GOOD, bad], on_error=OnError.skip)
    assert [row[0] for row in told(skipping, Split.HELDOUT)] == [f"thing {n}" for n in range(8)]
    assert "1 rows were skipped" in caplog.text


def test_most_boxes_in_the_other_order_refuse_the_file(folder: Path) -> None:
    """[20, 10, 15, 15] is xywh of [20, 10, 35, 25]: as xyxy its second corner lies before the first."""
    wrong = [line(n, solution=[20, 10, 15, 15]) for n in range(3)]
    for on_error in OnError:
        config = conversion(folder, [line(7), line(8), *wrong], on_error=on_error)
        with pytest.raises(DataError, match=r"3 of 5 boxes are no xyxy.*is it xywh \(dataset.box_order\)"):
            config.build(Split.HELDOUT)
    # and the other way round: [20, 10, 35, 25] as xywh ends at x = 55 of 40
    wrong = [line(n, solution=[20, 10, 35, 25]) for n in range(3)]
    with pytest.raises(DataError, match=r"3 of 3 boxes are no xywh.*is it xyxy"):
        conversion(folder, wrong, box_order=BoxOrder.xywh).build(Split.HELDOUT)


def test_shares_of_the_image_refuse_the_file(folder: Path) -> None:
    rows = [line(n, solution=[0.1, 0.2, 0.5, 1]) for n in range(2)]
    with pytest.raises(DataError, match=r"2 of 2 boxes lie within \[0, 1\]"):
        conversion(folder, rows).build(Split.HELDOUT)


@pytest.mark.parametrize(("text", "problem"), [("{", "is not JSON"), ('{"a": 1}', "holds a dict at the top")])
def test_no_list(folder: Path, text: str, problem: str) -> None:
    with pytest.raises(DataError, match=problem):
        conversion(folder, text).build(Split.HELDOUT)


def test_the_split_follows_the_image_and_not_the_order(folder: Path) -> None:
    rows = [line(n, image=f"{n // 2}.png") for n in range(80)]
    held = {r.question for r in conversion(folder, rows, heldout_path=None).build(Split.HELDOUT).rows}
    train = conversion(folder, rows, heldout_path=None).build(Split.TRAIN).rows
    turned = conversion(folder, rows[::-1], heldout_path=None).build(Split.HELDOUT).rows
    assert {row.question for row in turned} == held
    assert held | {row.question for row in train} == {f"thing {n}" for n in range(80)}
    # two sentences of one image stay together
    assert {f"thing {int(q.split()[1]) ^ 1}" for q in held} == held
    assert {r.id for r in turned} == {
        r.id for r in conversion(folder, rows, heldout_path=None).build(Split.HELDOUT).rows
    }


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ({"task": Task.ovd}, "task: has no such samples"),
        ({"box_order": BoxOrder.xywh}, "box_order: would be ignored: only dataset.format=json"),
        (
            {"format": Format.json, "instances": "x"},
            "instances: would be ignored: only dataset.format=release",
        ),
        ({"format": Format.json, "train_split": "val"}, "train_split: would be ignored"),
        ({"format": Format.json, "heldout_split": "testA"}, "heldout_split: would be ignored"),
    ],
)
def test_settings_that_do_not_fit(words: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        RefcocoConfig(path="x", **words)


@pytest.fixture(autouse=True)
def _warnings(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
