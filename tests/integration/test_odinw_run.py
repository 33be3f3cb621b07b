"""The benchmark `odinw` through the command line: AP of each data set and their mean."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import train
from tests.cli import make_cli
from tests.compose.benchmark_files import benchmark_files


@pytest.mark.slow
def test_each_data_set_is_measured_and_their_mean(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    root = benchmark_files(tmp_path / "data")
    shutil.copytree(root / "odinw" / "Packages" / "Raw" / "valid", root / "odinw" / "pothole" / "valid")
    words = ["algorithm=eval_only", "reward=odlength", "model=tiny_ovd", "eval=ovd", "eval.only=[odinw]"]
    words += ["eval.resamples=100", f"paths.data={root}", f"paths.output_dir={tmp_path}/run"]
    done = make_cli(monkeypatch, capsys)(*words, job=train.job, ready=train.ready)
    assert done.code == 0, done.err
    result = json.loads((tmp_path / "run" / "result.json").read_text("utf-8"))
    found = result["eval"]["benchmarks"]["odinw"]
    assert found["samples"] == 6
    each = [found["before"][f"greedy/source/{name}/ap"]["value"] for name in ("Packages", "pothole")]
    assert each[0] == each[1]  # the same files
    assert found["before"]["greedy/mean_ap"]["value"] == pytest.approx(sum(each) / 2)
