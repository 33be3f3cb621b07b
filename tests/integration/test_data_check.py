"""`make data-check`: every sample is read, and what is wrong is counted and named."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from scripts.data_check import report


def folder_of(tmp_path: Path, rows: list[dict[str, object]], pictures: int) -> str:
    rng = np.random.default_rng(0)
    for number in range(pictures):
        pixels = rng.integers(0, 256, size=(30, 40, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(tmp_path / f"{number}.png")
    file = tmp_path / "rows.jsonl"
    file.write_text("\n".join(json.dumps(row) for row in rows), encoding="utf-8")
    return str(file)


def row(number: int, **more: object) -> dict[str, object]:
    return {"image": f"{number}.png", "question": f"thing {number}", "boxes": [[1, 2, 30, 20]], **more}


def test_a_clean_set_passes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = folder_of(tmp_path, [row(i) for i in range(60)], 60)
    assert report(["dataset=jsonl", f"dataset.path={path}"]) == 0
    lines = capsys.readouterr().out.splitlines()
    train = next(line for line in lines if line.startswith("train:"))
    held = next(line for line in lines if line.startswith("heldout:"))
    assert int(train.split()[1]) + int(held.split()[1]) == 60
    assert lines[-1] == "pictures that both splits hold: 0"


def test_what_is_wrong_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = [row(i) for i in range(60)] + [row(99), row(0, boxes=[[1, 2, 300, 20]], question="wide")]
    path = folder_of(tmp_path, rows, 60)
    assert report(["dataset=jsonl", f"dataset.path={path}"]) == 1
    out = capsys.readouterr().out
    assert any(
        "row 61: " in line and "99.png" in line and "does not exist" in line for line in out.splitlines()
    )
    assert "row 62: box [1.0, 2.0, 300.0, 20.0] lies outside its 40 x 30 image" in out
    assert out.count("samples cannot be used") in (1, 2)


def test_a_picture_in_both_splits_is_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = folder_of(tmp_path, [row(i) for i in range(60)], 1)
    for number in range(1, 60):  # under other names, or they would be held out together
        shutil.copy(tmp_path / "0.png", tmp_path / f"{number}.png")
    assert report(["dataset=jsonl", f"dataset.path={path}"]) == 1
    assert "pictures that both splits hold: 1" in capsys.readouterr().out
