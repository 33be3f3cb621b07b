"""A small COCO file, and its samples by id."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from PIL import Image

from groundrl.data.base import Split
from groundrl.data.coco import CocoConfig
from groundrl.data.rows import RowSamples
from groundrl.types import LabeledBox, Sample

NAMES = ("person", "dog", "cat", "bird")


def content() -> dict[str, Any]:
    """Four images of 100 x 80: a (a person, two dogs), b (a cat), c (nothing), d (a bird, a crowd).

    Ids are integers and texts, and nothing is sorted.
    """
    return {
        "images": [
            {"id": 11, "file_name": "a.png", "width": 100, "height": 80},
            {"id": "12", "file_name": "b.png", "width": 100, "height": 80},
            {"id": 13, "file_name": "c.png", "width": 100, "height": 80},
            {"id": 14, "file_name": "d.png", "width": 100, "height": 80},
        ],
        "annotations": [
            {"id": 5, "image_id": 11, "category_id": 3, "bbox": [50, 50, 20, 20], "iscrowd": 0},
            {"id": 4, "image_id": 12, "category_id": 90, "bbox": [0, 0, 99.5, 80.5], "iscrowd": 0},
            {"id": 3, "image_id": "11", "category_id": "1", "bbox": [10, 20, 30, 40]},
            {"id": 2, "image_id": 14, "category_id": 7, "bbox": [0.5, 1.5, 5, 6], "iscrowd": 0},
            {"id": 1, "image_id": 11, "category_id": 3, "bbox": [0, 0, 5, 5], "iscrowd": 0},
            {"id": 9, "image_id": 14, "category_id": 1, "bbox": [0, 0, 60, 60], "iscrowd": 1},
        ],
        "categories": [
            {"id": 1, "name": "person"},
            {"id": 3, "name": "dog"},
            {"id": 90, "name": "cat"},
            {"id": 7, "name": "bird"},
        ],
    }


# xywh to xyxy: 50+20 = 70; 10+30 = 40, 20+40 = 60; 0.5+5 = 5.5, 1.5+6 = 7.5; 80.5 is clipped to the height 80
DOG_LARGE = LabeledBox((50.0, 50.0, 70.0, 70.0), "dog")
PERSON = LabeledBox((10.0, 20.0, 40.0, 60.0), "person")
DOG_SMALL = LabeledBox((0.0, 0.0, 5.0, 5.0), "dog")
CAT = LabeledBox((0.0, 0.0, 99.5, 80.0), "cat")
BIRD = LabeledBox((0.5, 1.5, 5.5, 7.5), "bird")
A, B, C, D = "coco:11", "coco:12", "coco:13", "coco:14"


def write(folder: Path, data: object) -> Path:
    for name in "abcd":
        Image.new("RGB", (100, 80)).save(folder / f"{name}.png")
    file = folder / "coco.json"
    file.write_text(json.dumps(data), encoding="utf-8")
    return file


def build(folder: Path, data: object | None = None, **settings: Any) -> RowSamples:
    """All samples of the file: with a held-out file of its own nothing is split off."""
    file = write(folder, content() if data is None else data)
    return CocoConfig(path=str(file), heldout_path=str(file), **settings).build(Split.TRAIN)


def by_id(source: RowSamples) -> dict[str, Sample]:
    samples = [source.sample(index) for index in range(len(source.rows))]
    found = {sample.id: sample for sample in samples}
    assert len(found) == len(samples)
    return found


def asked(source: RowSamples) -> dict[str, tuple[tuple[str, ...], tuple[LabeledBox, ...]]]:
    return {key: (sample.targets, sample.truth.boxes) for key, sample in by_id(source).items()}
