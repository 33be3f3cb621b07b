"""`dataset=jsonl`: rows that are good, rows that are refused, images as they are seen."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from groundrl.data.base import Split
from groundrl.data.jsonl import Jsonl, JsonlConfig
from groundrl.data.rows import OnError
from groundrl.errors import ConfigError, DataError
from groundrl.types import Task


def write(folder: Path, rows: list[Any]) -> str:
    file = folder / "rows.jsonl"
    lines = [row if isinstance(row, str) else json.dumps(row) for row in rows]
    file.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return str(file)


def rec(number: int, **more: Any) -> dict[str, Any]:
    return {"image": f"{number % 50}.png", "question": f"thing {number}", "boxes": [[1, 2, 30, 20]]} | more


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("a", *range(50)):
        Image.new("RGB", (40, 30), (1, 2, 3)).save(tmp_path / f"{name}.png")
    return tmp_path


def both(config: JsonlConfig) -> tuple[list[str], list[str]]:
    splits = (Jsonl(config, Split.TRAIN), Jsonl(config, Split.HELDOUT))
    train, held = ([s.sample(i).question for i in range(s.size or 0)] for s in splits)
    return train, held


def test_splits_are_disjoint_complete_and_stable(folder: Path) -> None:
    rows = [rec(i) for i in range(60)]
    train, held = both(JsonlConfig(path=write(folder, rows)))
    assert sorted(train + held) == sorted(row["question"] for row in rows)
    assert 1 <= len(held) <= 15
    more, still = both(JsonlConfig(path=write(folder, [rec(99), *reversed(rows)])))
    assert set(held) <= set(still)
    assert set(train) <= set(more)


def test_rows_of_one_image_are_held_out_together(folder: Path) -> None:
    """Three questions about each of 50 images, one with the name written another way in the JSON text."""
    rows: list[Any] = [rec(i, question=f"thing {i} {k}") for i in range(50) for k in range(2)]
    odd = '{{"question": "thing {0} 2", "boxes": [[1, 2, 30, 20]], "image" :"{0}.png"}}'
    rows += [odd.format(i) for i in range(50)]
    train, held = both(JsonlConfig(path=write(folder, rows)))
    images = [{name.split()[1] for name in names} for names in (train, held)]
    assert not images[0] & images[1]
    assert len(train) == 3 * len(images[0])
    assert len(held) == 3 * len(images[1]) >= 3
    with pytest.raises(DataError, match="those of one image are held out together"):
        both(JsonlConfig(path=write(folder, [rec(0, question=str(i)) for i in range(60)])))


def test_sample_has_boxes_labels_and_size(folder: Path) -> None:
    row = {"image": "a.png", "targets": ["dog", "Cat"],
           "boxes": [{"bbox_2d": [1.5, 2, 30, 20], "label": "cat"}]}  # fmt: skip
    config = JsonlConfig(path=write(folder, [row | {"id": i} for i in range(30)]), task=Task.ovd)
    sample = Jsonl(config, Split.TRAIN).sample(0)
    assert sample.truth.boxes[0].xyxy == (1.5, 2.0, 30.0, 20.0)
    assert sample.targets == ("dog", "Cat")
    assert sample.images[0].size == (40, 30)
    assert sample.task is Task.ovd


@pytest.mark.parametrize(
    ("row", "task", "problem"),
    [
        ('{"image": ', Task.rec, "is not JSON"),
        ([1], Task.rec, "is a list, not an object"),
        (rec(0, colour="red"), Task.rec, "unknown key 'colour'"),
        (rec(0, image=""), Task.rec, "`image` must be a path"),
        (rec(0, boxes=None), Task.rec, "`boxes` must be a list"),
        (rec(0, boxes=[]), Task.rec, "has its box"),
        (rec(0, boxes=[[1, 2, 3]]), Task.rec, "is not [x1, y1, x2, y2]"),
        (rec(0, boxes=[[30, 2, 1, 20]]), Task.rec, "is not [x1, y1, x2, y2]"),
        (rec(0, boxes=[[True, 2, 3, 4]]), Task.rec, "is not [x1, y1, x2, y2]"),
        (rec(0, boxes=[["1", 2, 3, 4]]), Task.rec, "is not [x1, y1, x2, y2]"),
        ('{"image": "a.png", "question": "x", "boxes": [[NaN, 1, 2, 3]]}', Task.rec, "is not [x1, y1, x2"),
        (rec(0, question=" "), Task.rec, "`question` must be a text"),
        (rec(0), Task.ovd, "`targets` must be a list"),
        ({"image": "a.png", "targets": ["dog"], "boxes": [{"bbox_2d": [1, 2, 3, 4], "label": "cow"}]},
         Task.ovd, "label 'cow' is not among the targets"),
        ({"image": "a.png", "question": "How many?", "answer": True}, Task.numeric, "`answer` must be"),
        ({"image": "a.png", "question": "How many?"}, Task.numeric, "`answer` must be"),
        ({"image": "a.png", "question": "How many?", "answer": " "}, Task.text, "`answer` must be"),
        ({"image": "a.png", "question": "?", "answer": "maybe"}, Task.yes_no, "cannot be read as yes_no"),
        ({"image": "a.png", "question": "?", "answer": "A or B"}, Task.mcq, "'A or B' cannot be read as mcq"),
        (rec(0, answer="x"), Task.mcq, "`boxes` is not used by task mcq"),
        (rec(0, answer="x"), Task.rec, "`answer` is not used by task rec"),
        (rec(0, boxes=[]), Task.point, "has its box"),
    ],
)  # fmt: skip
def test_bad_rows_are_named(folder: Path, row: Any, task: Task, problem: str) -> None:
    good = {"image": "a.png", "targets": ["dog"], "boxes": []}
    if task in (Task.rec, Task.point):
        good = rec(1)
    elif task is not Task.ovd:
        good = {"image": "a.png", "question": "How many?", "answer": "yes"}
    path = write(folder, [good, row])
    with pytest.raises(DataError) as caught:
        Jsonl(JsonlConfig(path=path, task=task), Split.TRAIN)
    assert f"{path}, row 2: " in str(caught.value)
    assert problem in str(caught.value)


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"image": "gone.png"}, "does not exist"),
        ({"image": "../outside.png"}, "outside the data root"),
        ({"image": "bad.png"}, "cannot be read"),
        ({"image": "thin.png"}, "more than 200 to 1"),
        ({"boxes": [[1, 2, 41, 20]]}, "lies outside its 40 x 30 image"),
    ],
)
def test_bad_images_are_named(folder: Path, change: dict[str, Any], problem: str) -> None:
    (folder / "bad.png").write_bytes(b"\x89PNG\r\n\x1a\nnot really")
    Image.new("L", (1, 201)).save(folder / "thin.png")
    Image.new("L", (4, 4)).save(folder.parent / "outside.png")
    path = write(folder, [rec(i, **change) for i in range(30)])
    source = Jsonl(JsonlConfig(path=path, heldout_path=path), Split.TRAIN)
    with pytest.raises(DataError, match=problem) as caught:
        source.sample(0)
    assert ", row " in str(caught.value)


def test_orientation_and_modes(folder: Path) -> None:
    upright = Image.new("RGB", (40, 30), (200, 0, 0))
    exif = upright.getexif()
    exif[0x0112] = 6
    upright.save(folder / "turned.jpg", exif=exif)
    Image.new("RGBA", (40, 30), (0, 0, 0, 0)).save(folder / "clear.png")
    Image.new("I;16", (40, 30), 65535).save(folder / "deep.png")
    Image.new("P", (40, 30)).save(folder / "palette.png")
    Image.new("CMYK", (40, 30)).save(folder / "cmyk.jpg")
    sizes: dict[str, tuple[int, int]] = {}
    colours: dict[str, Any] = {}
    for name in ("turned.jpg", "clear.png", "deep.png", "palette.png", "cmyk.jpg"):
        rows = [rec(i, image=name, boxes=[[0, 0, 20, 20]]) for i in range(30)]
        image = Jsonl(JsonlConfig(path=write(folder, rows)), Split.TRAIN).sample(0).images[0]
        assert image.mode == "RGB"
        sizes[name], colours[name] = image.size, image.getpixel((5, 5))
    assert sizes["turned.jpg"] == (30, 40)
    assert colours["clear.png"] == (255, 255, 255)
    assert colours["deep.png"] == (255, 255, 255)


def test_missing_file_and_bad_settings(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"dataset\.path: no such file"):
        Jsonl(JsonlConfig(path=str(tmp_path / "none.jsonl")), Split.TRAIN)
    with pytest.raises(ConfigError, match="heldout_every"):
        JsonlConfig(path="x", heldout_every=1)


def test_answers_and_points(folder: Path) -> None:
    row = {"image": "a.png", "question": "How many dogs?", "answer": 3}
    config = JsonlConfig(path=write(folder, [row | {"id": i} for i in range(30)]), task=Task.numeric)
    sample = Jsonl(config, Split.TRAIN).sample(0)
    assert (sample.task, sample.truth.answer, sample.truth.boxes) == (Task.numeric, "3", ())
    config = JsonlConfig(path=write(folder, [rec(i) for i in range(30)]), task=Task.point)
    assert Jsonl(config, Split.TRAIN).sample(0).truth.boxes[0].xyxy == (1, 2, 30, 20)


def test_targets_that_are_one_category_are_merged_with_a_warning(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    row = {"image": "a.png", "targets": ["dog", "Dog ", "cat"], "boxes": []}
    rows = [{**row, "targets": ["dog"], "id": -1}, *({**row, "id": i} for i in range(30))]
    source = Jsonl(JsonlConfig(path=write(folder, rows), task=Task.ovd), Split.TRAIN)
    assert {source.sample(i).targets for i in range(source.size or 0)} <= {("dog",), ("dog", "cat")}
    assert source.sample((source.size or 0) - 1).targets == ("dog", "cat")
    assert "merged in 30 rows, first in row 2 (31 rows checked)" in caplog.text


def test_bad_rows_can_be_skipped_and_are_counted(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    rows = [rec(i) for i in range(60)] + ["{", rec(99, boxes=[]), [1]]
    path = write(folder, rows)
    with pytest.raises(DataError, match="row 61"):
        Jsonl(JsonlConfig(path=path), Split.TRAIN)
    train, held = both(JsonlConfig(path=path, on_error=OnError.skip))
    assert sorted(train + held) == sorted(f"thing {i}" for i in range(60))
    counted = [int(n) for n in re.findall(r"(\d) rows were skipped", caplog.text)]
    assert sum(counted) == 3


def test_rows_beyond_the_first_thousand_are_checked_when_they_are_read(folder: Path) -> None:
    rows: list[Any] = [rec(i) for i in range(1000)]
    path = write(folder, [*rows, "{"] + [rec(i) for i in range(1001, 1100)])

    def problem(source: Jsonl, index: int) -> str:
        try:
            source.sample(index)
        except DataError as error:
            return str(error)
        return ""

    sources = [Jsonl(JsonlConfig(path=path), split) for split in Split]
    problems = {problem(source, index) for source in sources for index in range(source.size or 0)} - {""}
    assert len(problems) == 1
    assert "row 1001: is not JSON" in problems.pop()
    with pytest.raises(DataError, match="row 1001"):
        Jsonl(JsonlConfig(path=path, check=True), Split.TRAIN)


def test_a_file_of_its_own_for_the_held_out_split(folder: Path) -> None:
    train = write(folder, [rec(i) for i in range(30)])
    other = folder / "other"
    other.mkdir()
    for name in range(3):
        Image.new("RGB", (40, 30)).save(other / f"{name}.png")
    held = write(other, [rec(i) for i in range(100, 103)])
    config = JsonlConfig(path=train, heldout_path=held, heldout_images=str(other))
    assert (Jsonl(config, Split.TRAIN).size, Jsonl(config, Split.HELDOUT).size) == (30, 3)
    assert Jsonl(config, Split.HELDOUT).sample(0).question == "thing 100"
    with pytest.raises(ConfigError, match=r"dataset\.heldout_path: no such file"):
        Jsonl(JsonlConfig(path=train, heldout_path="none.jsonl"), Split.HELDOUT)
