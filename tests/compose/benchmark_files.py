"""A small data folder in which every benchmark of the suites finds its files, laid out as the docs say."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from PIL import Image

COUNT = 3


def benchmark_files(root: Path) -> Path:
    """Write the folder and return it."""
    _coco(root)
    _ovdeval(root)
    _rec(root)
    _questions(root)
    return root


def _pictures(folder: Path) -> list[str]:
    folder.mkdir(parents=True, exist_ok=True)
    names = [f"{number:012d}.png" for number in range(COUNT)]
    for name in names:
        Image.new("RGB", (64, 64)).save(folder / name)
    return names


def _instances(names: list[str], **extra: Any) -> dict[str, Any]:
    images = [
        {"id": n, "file_name": name, "width": 64, "height": 64} | extra for n, name in enumerate(names, 1)
    ]
    boxes = [{"id": n, "image_id": n, "category_id": 1, "bbox": [1, 2, 30, 40]} for n in range(1, COUNT + 1)]
    categories = [{"id": 1, "name": "a dog"}, {"id": 2, "name": "a cat"}]
    return {"images": images, "annotations": boxes, "categories": categories}


def _json(file: Path, content: Any) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(content))


def _coco(root: Path) -> None:
    names = _pictures(root / "coco" / "val2017")
    _json(root / "coco" / "annotations" / "instances_val2017.json", _instances(names))
    names = _pictures(root / "odinw" / "Packages" / "Raw" / "valid")
    file = root / "odinw" / "Packages" / "Raw" / "valid" / "annotations_without_background.json"
    _json(file, _instances(names))


def _ovdeval(root: Path) -> None:
    names = _pictures(root / "ovdeval" / "images" / "color")
    content = _instances(names, text=["a dog"], neg_text=["a cat"])
    _json(root / "ovdeval" / "annotations" / "color.json", content)


def _rec(root: Path) -> None:
    sets = ["refcoco_val", "refcoco_testA", "refcoco_testB", "refcocop_val", "refcocop_testA"]
    sets += ["refcocop_testB", "refcocog_val", "refcocog_test", "refgta_subsample", "lisa_test"]
    for folder in ("coco", "refgta", "lisa"):
        names = _pictures(root / folder)
    rows = [{"image": name, "normal_caption": f"thing {name}", "solution": [1, 2, 30, 40]} for name in names]
    for name in sets:
        _json(root / "rec" / f"{name}.json", rows)


def _questions(root: Path) -> None:
    from datasets import Dataset

    Image.new("RGB", (64, 64)).save(root / "a.png")
    content = (root / "a.png").read_bytes()
    for folder in ("superclevr", "chartqa/test/png", "vstar"):
        (root / folder).mkdir(parents=True, exist_ok=True)
        (root / folder / "a.png").write_bytes(content)
    lines = [{"image_path": "a.png", "question": f"How many {n}?", "ground_truth": n} for n in range(COUNT)]
    file = root / "superclevr" / "superclevr_test200_counting_problems.jsonl"
    file.write_text("\n".join(json.dumps(line) for line in lines))
    charts = [{"imgname": "a.png", "query": f"How many {n}?", "label": str(n)} for n in range(COUNT)]
    _json(root / "chartqa" / "test" / "test_human.json", charts)
    where = [{"image": "a.png", "text": f"Which {n}?\nA. left\nB. right", "label": "A"} for n in range(COUNT)]
    (root / "vstar" / "test_questions.jsonl").write_text("\n".join(json.dumps(line) for line in where))
    picture = {"bytes": content, "path": None}
    tables = {
        "mathvision/test": {"question": "1 + 1?", "options": [], "answer": "2", "decoded_image": picture},
        "mmstar/mmstar": {"question": "Which?\nA. left\nB. right", "answer": "A", "image": picture},
        "tablevqa/vtabfact": {"question": "Is it so?", "gt": "no", "image": picture},
    }
    for name, row in tables.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        Dataset.from_list([row] * COUNT).to_parquet(root / f"{name}.parquet")
