"""The code blocks of docs/howto/add_dataset.md do what the page says."""

from __future__ import annotations

import re
import sys
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hydra import compose
from PIL import Image

from groundrl.config.compose import composing
from groundrl.config.locate import located
from groundrl.config.registry import load_all
from groundrl.data.base import Split
from groundrl.errors import DataError

PAGE = Path(__file__).resolve().parents[3] / "docs" / "howto" / "add_dataset.md"


def block(language: str) -> str:
    (text,) = re.findall(rf"```{language}\n(.*?)```", PAGE.read_text("utf-8"), flags=re.S)
    return text


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """The page's two files in place, and pictures of 40 x 30."""
    load_all()
    module = types.ModuleType("groundrl.data.box_csv")
    sys.modules[module.__name__] = module
    exec(compile(block("python"), str(PAGE), "exec"), module.__dict__)
    (tmp_path / "dataset").mkdir()
    (tmp_path / "dataset" / "box_csv.yaml").write_text(block("yaml"), encoding="utf-8")
    for number in range(20):
        Image.new("RGB", (40, 30), (number, 0, 0)).save(tmp_path / f"{number}.png")
    yield tmp_path
    del sys.modules[module.__name__]


def dataset(folder: Path, lines: list[str], *more: str) -> Any:
    file = folder / "train.csv"
    file.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    words = ["dataset=box_csv", f"dataset.path={file}", f"hydra.searchpath=[file://{folder}]", *more]
    with composing():
        return located(compose("config", overrides=words)).dataset


def test_both_splits_hold_the_samples_of_their_files(folder: Path) -> None:
    (folder / "held.csv").write_text('2.png;0;0;40;30;"the ""whole""; all of it"\n', encoding="utf-8")
    lines = ["1.png;1;2;30;20.5;the red car, left", "0.png;5;6;7;8;a dog"]
    config = dataset(folder, lines, "dataset.delimiter=';'", f"dataset.heldout_path={folder / 'held.csv'}")
    train, held = config.build(Split.TRAIN), config.build(Split.HELDOUT)
    assert (train.size, held.size) == (2, 1)
    first, second, other = train.sample(0), train.sample(1), held.sample(0)
    assert (first.id, first.question, first.split) == ("train:1", "the red car, left", "train")
    assert [box.xyxy for box in first.truth.boxes] == [(1.0, 2.0, 30.0, 20.5)]
    assert first.images[0].size == (40, 30)
    assert first.images[0].getpixel((0, 0)) == (1, 0, 0)
    assert (second.id, second.question) == ("train:2", "a dog")
    assert [box.xyxy for box in second.truth.boxes] == [(5.0, 6.0, 7.0, 8.0)]
    assert (other.id, other.question, other.split) == ("held:1", 'the "whole"; all of it', "heldout")
    assert [box.xyxy for box in other.truth.boxes] == [(0.0, 0.0, 40.0, 30.0)]


def test_without_a_heldout_file_images_are_held_out_whole(folder: Path) -> None:
    lines = [f"{number % 20}.png,1,2,30,20,thing {number}" for number in range(60)]
    config = dataset(folder, lines, "dataset.heldout_every=3")
    splits = [config.build(split) for split in (Split.TRAIN, Split.HELDOUT)]
    train, held = ([source.sample(i).question for i in range(source.size)] for source in splits)
    assert sorted(train + held) == sorted(f"thing {number}" for number in range(60))
    images = [{int(name.split()[1]) % 20 for name in names} for names in (train, held)]
    assert not images[0] & images[1]
    assert len(held) == 3 * len(images[1]) > 0


@pytest.mark.parametrize("line", ["0.png,1,2,3,a dog", "0.png,1,2,3,four,a dog", "0.png,1,2,3,4,5,a dog", ""])
def test_a_wrong_row_is_named_or_skipped(folder: Path, line: str) -> None:
    lines = [f"{number}.png,1,2,30,20,thing" for number in range(10)]
    config = dataset(folder, [*lines, line])
    with pytest.raises(DataError) as caught:
        config.build(Split.TRAIN)
    assert str(caught.value).startswith(f"{folder / 'train.csv'}, row 11: {line!r} is not image,x1,y1,x2,y2")
    more = ["dataset.on_error=skip", "dataset.heldout_every=2"]
    config = dataset(folder, [*lines, line], *more)
    assert config.build(Split.TRAIN).size + config.build(Split.HELDOUT).size == 10


@pytest.mark.parametrize("box", ["1,2,41,20", "30,2,1,20", "nan,2,30,20"])
def test_a_box_outside_its_image_is_named(folder: Path, box: str) -> None:
    file = folder / "held.csv"
    file.write_text("0.png,1,2,3,4,a dog\n", encoding="utf-8")
    source = dataset(folder, [f"0.png,{box},a dog"], f"dataset.heldout_path={file}").build(Split.TRAIN)
    with pytest.raises(DataError, match=r"train\.csv, row 1: box .* lies outside its 40 x 30 image"):
        source.sample(0)
