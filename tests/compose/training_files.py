"""The data folder of `benchmark_files` with the training sets of the published tables in it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from PIL import Image
from tests.compose.benchmark_files import benchmark_files

COUNT = 60
"""Enough images for a held-out tenth, and for the parts of a mixture."""
SMALL, LARGE = [1, 2, 3, 4], [10, 12, 30, 40]
"""0.3 % and 29 % of an image of 64 x 64 pixels."""
NAMES = ("a dog", "a cat", "a bird", "a fox")


def training_files(root: Path) -> Path:
    """Write the folder and return it."""
    benchmark_files(root)
    _coco(root / "coco", "train2017")
    _coco(root / "coco", "val2017")
    _described(root / "d3" / "d3_images", root / "d3" / "d3_json" / "d3_full_annotations.json")
    _described(root / "ovdeval" / "images" / "color", root / "ovdeval" / "annotations" / "color.json")
    said = [{"image": "a.png", "normal_caption": f"thing {n}", "solution": LARGE} for n in range(COUNT)]
    for name in ("refcoco", "refcocop", "refcocog"):
        for split in ("train", "val"):
            (root / "rec" / f"{name}_{split}.json").write_text(json.dumps(said))
    Image.new("RGB", (64, 64)).save(root / "coco" / "a.png")
    lines = [{"image_path": "a.png", "question": f"How many {n}?", "ground_truth": n} for n in range(COUNT)]
    file = root / "superclevr" / "superclevr_train.jsonl"
    file.write_text("\n".join(json.dumps(line) for line in lines))
    return root


def _pictures(folder: Path) -> list[dict[str, Any]]:
    folder.mkdir(parents=True, exist_ok=True)
    images: list[dict[str, Any]] = [
        {"id": n, "file_name": f"{n:012d}.png", "width": 64, "height": 64} for n in range(1, COUNT + 1)
    ]
    for image in images:
        Image.new("RGB", (64, 64)).save(folder / image["file_name"])
    return images


def _write(file: Path, images: list[dict[str, Any]], boxes: list[list[int]]) -> None:
    """Image n has box n, of category n modulo the names."""
    annotations = [
        {"id": n, "image_id": n, "category_id": n % len(NAMES), "bbox": box, "iscrowd": 0}
        for n, box in enumerate(boxes, 1)
    ]
    names = [{"id": number, "name": name} for number, name in enumerate(NAMES)]
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps({"images": images, "annotations": annotations, "categories": names}))


def _coco(root: Path, split: str) -> None:
    """Every second image holds a small object."""
    images = _pictures(root / split)
    boxes = [SMALL if n % 2 else LARGE for n in range(COUNT)]
    _write(root / "annotations" / f"instances_{split}.json", images, boxes)


def _described(folder: Path, file: Path) -> None:
    """Each image says which name holds in it and which do not."""
    images = _pictures(folder)
    for image in images:
        held = NAMES[image["id"] % len(NAMES)]
        image |= {"text": [held], "neg_text": [name for name in NAMES if name != held]}
    _write(file, images, [LARGE] * COUNT)
