"""`dataset=hf`: Parquet, Arrow and saved folders; nothing leaves the machine."""

from __future__ import annotations

import hashlib
import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.unit.data.hf_world import image, library, parquet, png, questions, seen

from groundrl.data.base import Split
from groundrl.data.hf import HfConfig
from groundrl.data.hf_stream import HfStream
from groundrl.data.hf_table import HfTable
from groundrl.data.refcoco_json import BoxOrder
from groundrl.data.rows import OnError, is_heldout
from groundrl.errors import ConfigError, DataError, NoFileError
from groundrl.types import LabeledBox, Task

TRAIN, HELDOUT = Split.TRAIN, Split.HELDOUT
pytestmark = pytest.mark.usefixtures("hf_offline")


def test_a_folder_of_parquet_gives_its_splits(tmp_path: Path) -> None:
    config = HfConfig(
        path=parquet(tmp_path, train=questions(3), test=questions(2, r0="7")), heldout_split="test"
    )
    train, heldout = config.build(TRAIN), config.build(HELDOUT)
    assert isinstance(train, HfTable)
    assert (train.size, heldout.size, train.tasks()) == (3, 2, {Task.numeric})
    assert seen(train.sample(2)) == ("set:train:r2", "q2", "2", [(32, 20)])
    assert seen(heldout.sample(0)) == ("set:test:r0", "q0", "7", [(30, 20)])
    assert (train.sample(0).split, heldout.sample(0).split) == ("train", "heldout")
    assert train.sample(1).images[0].getpixel((0, 0)) == (9, 8, 7)
    assert replace(config, train_size=2).build(TRAIN).size == 2
    assert replace(config, train_size=1).build(HELDOUT).size == 2


def test_single_files_and_saved_folders(tmp_path: Path) -> None:
    table = questions(3)
    table.to_parquet(str(tmp_path / "one.parquet"))
    table.save_to_disk(str(tmp_path / "saved"))
    library.DatasetDict({"train": table, "val": questions(2)}).save_to_disk(str(tmp_path / "both"))
    (arrow,) = (tmp_path / "saved").glob("*.arrow")
    for path in (tmp_path / "one.parquet", arrow, tmp_path / "saved", tmp_path / "both"):
        for streaming in (False, True):
            config = HfConfig(path=str(path), streaming=streaming, heldout_every=1000)
            source = config.build(TRAIN)
            assert isinstance(source, HfStream) == streaming
            assert [seen(source.sample(n))[1:] for n in range(3)] == [
                ("q0", "0", [(30, 20)]),
                ("q1", "1", [(31, 20)]),
                ("q2", "2", [(32, 20)]),
            ]
    assert HfConfig(path=str(tmp_path / "both"), heldout_split="val").build(HELDOUT).size == 2
    with pytest.raises(
        ConfigError, match=r"dataset\.heldout_split: the folder holds a single table.*use null"
    ):
        HfConfig(path=str(tmp_path / "saved"), heldout_split="val").build(HELDOUT)
    with pytest.raises(ConfigError, match=r"dataset\.name: .* no configurations"):
        HfConfig(path=str(tmp_path / "saved"), name="main").build(TRAIN)


def test_about_one_image_in_so_many_is_held_out_by_its_content(tmp_path: Path) -> None:
    config = HfConfig(path=parquet(tmp_path, train=questions(40)), heldout_every=4)
    held = [n for n in range(40) if is_heldout(hashlib.sha256(png((30 + n, 20))).hexdigest(), 4)]
    assert 4 <= len(held) <= 16
    for streaming in (False, True):
        own = replace(config, streaming=streaming)
        heldout, train = own.build(HELDOUT), own.build(TRAIN)
        assert [heldout.sample(n).question for n in range(len(held))] == [f"q{n}" for n in held]
        rest = [f"q{n}" for n in range(40) if n not in held]
        assert [train.sample(n).question for n in range(len(rest))] == rest


@pytest.mark.parametrize("streaming", [False, True])
def test_wrong_rows_are_named_or_counted(
    tmp_path: Path, streaming: bool, caplog: pytest.LogCaptureFixture
) -> None:
    path = parquet(tmp_path, train=questions(6, r2="many", r4="few"))
    config = HfConfig(path=path, streaming=streaming, heldout_split="train")
    with pytest.raises(DataError, match=r"set:train, row 3: the answer 'many' cannot be read as numeric"):
        config.build(TRAIN)
    source = replace(config, on_error=OnError.skip).build(TRAIN)
    for _ in range(2):  # counted once however often they are read
        assert [source.sample(n).question for n in range(4)] == ["q0", "q1", "q3", "q5"]
    said = [record.getMessage() for record in caplog.records if "skipped" in record.getMessage()]
    counts = [1, 2] if streaming else [2]  # a stream may have no end, so the first one is told at once
    for message, count in zip(said, counts, strict=True):
        assert f"set:train: {count} rows were skipped; first: " in message
        assert "row 3" in message


def test_a_broken_image_is_an_error_when_its_sample_is_asked_for(tmp_path: Path) -> None:
    table = questions(2).to_list()
    table[1]["image"]["bytes"] = png((31, 20))[:50]
    broken = library.Dataset.from_list(table)
    source = HfConfig(path=parquet(tmp_path, train=broken), heldout_split="train").build(TRAIN)
    assert source.sample(0).images[0].size == (30, 20)
    with pytest.raises(DataError, match=r"set:train, row 2: image 1 \(bytes\) cannot be read"):
        source.sample(1)


def boxed(*rows: dict[str, Any]) -> Any:
    return library.Dataset.from_list([{"image": image(n)} | row for n, row in enumerate(rows)]).cast_column(
        "image", library.Image()
    )


def test_boxes_of_expressions_in_both_orders(tmp_path: Path) -> None:
    table = boxed({"said": "the cat", "bbox": [2, 3, 10, 15]}, {"said": "a dog", "bbox": [1.5, 2, 30, 18]})
    config = HfConfig(
        path=parquet(tmp_path, train=table),
        heldout_split="train",
        task=Task.rec,
        question_key="said",
        boxes_key="bbox",
    )
    first = config.build(TRAIN).sample(0)
    assert (first.question, first.task) == ("the cat", Task.rec)
    assert first.truth.boxes == (LabeledBox(xyxy=(2.0, 3.0, 10.0, 15.0)),)
    # [2, 3, 10, 15] as x, y, width, height ends at (12, 18); [1.5, 2, 30, 18] at (31.5, 20) of 31 x 20
    wide = replace(config, box_order=BoxOrder.xywh).build(TRAIN)
    assert wide.sample(0).truth.boxes[0].xyxy == (2.0, 3.0, 12.0, 18.0)
    with pytest.raises(
        DataError, match=r"row 2: box \[1\.5, 2\.0, 31\.5, 20\.0\] lies outside its 31 x 20 image"
    ):
        wide.sample(1)


def test_boxes_of_detection_and_several_images_a_row(tmp_path: Path) -> None:
    cat, dog = {"bbox_2d": [1, 2, 9, 12], "label": "cat"}, {"bbox_2d": [3, 4, 20, 15], "label": "Dog"}
    table = boxed({"asked": ["cat", "dog"], "found": [cat, dog]}, {"asked": ["cat"], "found": []})
    config = HfConfig(
        path=parquet(tmp_path, train=table),
        heldout_split="train",
        task=Task.ovd,
        boxes_key="found",
        targets_key="asked",
    )
    source = config.build(TRAIN)
    assert source.sample(0).targets == ("cat", "dog")
    assert source.sample(0).truth.boxes == (
        LabeledBox(xyxy=(1.0, 2.0, 9.0, 12.0), label="cat"),
        LabeledBox(xyxy=(3.0, 4.0, 20.0, 15.0), label="Dog"),
    )
    assert source.sample(1).truth.boxes == ()
    rows = [{"question": "<image> or <image>?", "answer": 1, "image": [image(0), image(5)]}]
    features = library.Features(
        {
            "question": library.Value("string"),
            "answer": library.Value("int64"),
            "image": library.List(library.Image()),
        }
    )
    many = library.Dataset.from_list(rows, features=features)
    for streaming in (False, True):
        own = HfConfig(path=parquet(tmp_path, train=many), heldout_split="train", streaming=streaming)
        assert [one.size for one in own.build(TRAIN).sample(0).images] == [(30, 20), (35, 20)]


def test_a_file_in_the_other_order_is_refused_as_a_whole(tmp_path: Path) -> None:
    rows = [{"question": "q", "boxes": [20, 10, 5, 5]} for _ in range(3)]  # x2 = 5 < x1 = 20
    path = parquet(tmp_path, train=boxed(*rows, {"question": "q", "boxes": [1, 2, 3, 4]}))
    config = HfConfig(path=path, heldout_split="train", task=Task.rec, boxes_key="boxes")
    with pytest.raises(DataError, match=r"row 1: box \[20, 10, 5, 5\] is not \[x1, y1, x2, y2\]"):
        config.build(TRAIN)
    for streaming in (False, True):
        with pytest.raises(DataError, match=r"3 of 4 boxes.*the order may be wrong"):
            replace(config, on_error=OnError.skip, streaming=streaming).build(TRAIN)


def test_options_make_rows_mcq(tmp_path: Path) -> None:
    rows = [{"question": "Which?", "answer": "dog", "options": ["cat", "dog"], "image": image(0)}]
    path = parquet(tmp_path, train=library.Dataset.from_list(rows))
    source = HfConfig(path=path, heldout_split="train", options_key="options").build(TRAIN)
    sample = source.sample(0)
    assert (sample.question, sample.truth.answer) == ("Which?\nA. cat\nB. dog", "B")
    assert (sample.task, source.tasks()) == (Task.mcq, {Task.mcq, Task.numeric})


def test_images_of_a_folder_stay_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "pictures" / "train"
    folder.mkdir(parents=True)
    (folder / "a.png").write_bytes(png((33, 22)))
    (folder / "metadata.jsonl").write_text('{"file_name": "a.png", "question": "q", "answer": "1"}\n')
    monkeypatch.chdir(tmp_path)
    for streaming in (False, True):
        config = HfConfig(path="pictures", heldout_split="train", streaming=streaming)
        assert seen(config.build(TRAIN).sample(0))[1:] == ("q", "1", [(33, 22)])
    with pytest.raises(DataError, match="lies outside the data root"):
        HfConfig(path="pictures", heldout_split="train", images="cache").build(TRAIN)


@pytest.mark.parametrize("streaming", [False, True])
def test_missing_splits_and_columns_list_what_there_is(tmp_path: Path, streaming: bool) -> None:
    path = parquet(tmp_path, train=questions(2), test=questions(2))
    config = HfConfig(path=path, streaming=streaming)
    with pytest.raises(ConfigError, match=r"dataset\.train_split: no such split, got 'dev'.*train, test"):
        replace(config, train_split="dev").build(TRAIN)
    with pytest.raises(ConfigError, match=r"dataset\.heldout_split: no such split, got 'dev'.*train, test"):
        replace(config, heldout_split="dev").build(HELDOUT)
    with pytest.raises(
        ConfigError, match=r"dataset\.answer_key: no such column, got 'a'; .*question, answer"
    ):
        replace(config, answer_key="a").build(TRAIN)
    with pytest.raises(ConfigError, match=r"dataset\.image_key: no such column, got 'i'; .*answer, image"):
        replace(config, image_key="i").build(TRAIN)
    with pytest.raises(ConfigError, match=r"dataset\.name: .*'other' not found.*'default'"):
        replace(config, name="other").build(TRAIN)


def test_what_cannot_be_loaded_is_named(tmp_path: Path) -> None:
    with pytest.raises(NoFileError, match=r"dataset\.path: .*the hub cannot be reached.*'owner/name'"):
        HfConfig(path="owner/name").build(TRAIN)
    with pytest.raises(NoFileError, match=r"dataset\.path: no such file or folder"):
        HfConfig(path=str(tmp_path / "gone.parquet")).build(TRAIN)
    (tmp_path / "empty").mkdir()
    with pytest.raises(NoFileError, match="holds no data set"):
        HfConfig(path=str(tmp_path / "empty")).build(TRAIN)
    (tmp_path / "rows.csv").write_text("question,answer")
    with pytest.raises(ConfigError, match=r"unknown ending.*\.parquet, \.arrow, a folder"):
        HfConfig(path=str(tmp_path / "rows.csv")).build(TRAIN)
    (tmp_path / "bad.parquet").write_bytes(b"PAR1 and nothing else")
    with pytest.raises(DataError, match=r"bad\.parquet: cannot be read \(Parquet magic bytes"):
        HfConfig(path=str(tmp_path / "bad.parquet")).build(TRAIN)
    script = tmp_path / "script"
    script.mkdir()
    (script / "script.py").write_text("raise SystemExit('was run')")
    questions(1).to_parquet(str(script / "train.parquet"))
    with pytest.raises(ConfigError, match=r"scripts are no longer supported.*comes as files"):
        HfConfig(path=str(script)).build(TRAIN)


def test_without_the_library_it_is_said_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(ConfigError, match=r"not installed, got 'owner/name'; pip install datasets"):
        HfConfig(path="owner/name").build(TRAIN)


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ({"task": Task.rec}, "dataset.boxes_key: task rec needs a column of boxes"),
        ({"task": Task.ovd, "boxes_key": "b"}, "dataset.targets_key: task ovd needs a column of categories"),
        ({"boxes_key": "b"}, "dataset.boxes_key: task numeric reads none"),
        (
            {"task": Task.rec, "boxes_key": "b", "targets_key": "t"},
            "dataset.targets_key: task rec reads none",
        ),
        (
            {"task": Task.rec, "boxes_key": "b", "options_key": "o"},
            "dataset.options_key: task rec reads none",
        ),
        (
            {"task": Task.point, "boxes_key": "b", "image_key": None},
            "dataset.image_key: task point needs images",
        ),
        ({"heldout_every": 1}, "heldout_every: must be >= 2"),
        ({"streaming": True, "train_size": 5}, "train_size: a stream has no size"),
    ],
)
def test_settings_that_cannot_work(settings: dict[str, Any], problem: str) -> None:
    with pytest.raises(ConfigError) as caught:
        HfConfig(path="owner/name", **settings).build(TRAIN)
    assert str(caught.value).startswith(problem)


def test_fingerprints_change_with_the_rows_and_the_settings(tmp_path: Path) -> None:
    config = HfConfig(path=parquet(tmp_path, train=questions(20)), heldout_every=4)
    (tmp_path / "other").mkdir()
    changed = {f"r{n}": "9" for n in range(20)}
    other = replace(config, path=parquet(tmp_path / "other", train=questions(20, **changed)))
    for streaming in (False, True):
        sources = [
            replace(one, streaming=streaming).build(split)
            for one in (config, other, replace(config, heldout_every=5))
            for split in Split
        ]
        assert len({source.fingerprint() for source in sources}) == 6
        again = replace(config, streaming=streaming).build(TRAIN)
        assert again.fingerprint() == sources[0].fingerprint()


def test_images_are_named_for_the_overlap_check(tmp_path: Path) -> None:
    config = HfConfig(path=parquet(tmp_path, train=questions(3), test=questions(2)), heldout_split="test")
    train, heldout = config.build(TRAIN), config.build(HELDOUT)
    assert isinstance(train, HfTable)
    assert isinstance(heldout, HfTable)
    shared = (train.image_ids() or frozenset()) & (heldout.image_ids() or frozenset())
    assert len(shared) == 2


def test_a_file_that_is_written_again_is_read_again(tmp_path: Path) -> None:
    config = HfConfig(path=parquet(tmp_path, train=questions(20)), heldout_every=4)
    before = config.build(TRAIN)
    parquet(tmp_path, train=questions(30))
    os.utime(Path(config.path) / "train-00000-of-00001.parquet", (1, 1))
    after = config.build(TRAIN)
    sizes = [config.build(split).size for split in Split]
    assert sum(size or 0 for size in sizes) == 30
    assert before.fingerprint() != after.fingerprint()
