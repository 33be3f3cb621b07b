"""What all data sets from files share."""

from __future__ import annotations

from pathlib import Path

import pytest

from groundrl.data.base import Split
from groundrl.data.rows import FileConfig, Row, RowSamples
from groundrl.types import Task


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
