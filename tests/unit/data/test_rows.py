"""What all data sets from files share."""

from __future__ import annotations

from pathlib import Path

import pytest
from PIL import Image

from groundrl.data.base import Split
from groundrl.data.rows import FileConfig, OnError, Row, RowSamples
from groundrl.errors import DataError
from groundrl.types import LabeledBox, Task


def test_merged_targets_are_reported_once_for_the_file(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "rows.json"
    file.write_text("[]", encoding="utf-8")
    config = FileConfig(path=str(file), heldout_path=str(file))
    names = (("cat", "dog"), ("cat", "Cat "), ("Dog", "dog", "cat"))
    rows = [Row(number=n, id=str(n), task=Task.ovd, targets=own) for n, own in enumerate(names, start=1)]
    samples = RowSamples(config, Split.TRAIN, rows, source="rows")
    assert [row.targets for row in samples.rows] == [("cat", "dog"), ("cat",), ("Dog", "cat")]
    assert len(caplog.records) == 1
    assert "merged in 2 rows, first in row 2" in caplog.text


def test_rows_whose_images_cannot_be_used_are_skipped_and_counted(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """One missing, one no image, one too long, one box outside an image that stands upright; two are good."""
    file = tmp_path / "rows.json"
    file.write_text("[]", encoding="utf-8")
    image = Image.new("RGB", (40, 30))
    exif = image.getexif()
    exif[0x0112] = 6
    image.save(tmp_path / "turned.jpg", exif=exif)
    image.save(tmp_path / "good.png")
    Image.new("RGB", (1, 300)).save(tmp_path / "long.png")
    (tmp_path / "text.png").write_text("no image")
    wide, high = LabeledBox(xyxy=(0, 0, 35, 10)), LabeledBox(xyxy=(0, 0, 10, 35))
    given = [
        ("gone.png", wide), ("text.png", wide), ("long.png", wide), ("turned.jpg", wide),
        ("turned.jpg", high), ("good.png", wide),
    ]  # fmt: skip
    rows = [
        Row(number=n, id=str(n), task=Task.rec, images=(name,), boxes=(box,))
        for n, (name, box) in enumerate(given, start=1)
    ]
    words = {"path": str(file), "heldout_path": str(file)}
    samples = RowSamples(FileConfig(**words, on_error=OnError.skip), Split.TRAIN, rows, source="rows")
    assert [row.number for row in samples.rows] == [5, 6]
    assert "4 rows were skipped; first: " in caplog.text
    assert samples.sample(0).images[0].size == (30, 40)
    strict = RowSamples(FileConfig(**words), Split.TRAIN, rows, source="rows")
    with pytest.raises(DataError, match=r"row 4: .* lies outside its 30 x 40 image"):
        strict.sample(3)
