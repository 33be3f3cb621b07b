"""The files of docs/howto/add_ablation.md, in a copy of the checkout, give a table by its two commands."""

from __future__ import annotations

import csv
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
PAGE = ROOT / "docs" / "howto" / "add_ablation.md"


def commands() -> list[str]:
    (text,) = re.findall(r"```sh\n(.*?)```", PAGE.read_text("utf-8"), flags=re.S)
    return text.splitlines()


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A copy with the page's files in their places."""
    for name in ("src", "conf", "sweeps"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("train.py", "Makefile"):
        shutil.copy(ROOT / name, tmp_path / name)
    (tmp_path / "assets").symlink_to(ROOT / "assets")
    (tmp_path / "requirements").symlink_to(ROOT / "requirements")
    shutil.copy(ROOT / "pyproject.toml", tmp_path / "pyproject.toml")
    for place, text in re.findall(r"```yaml (\S+)\n(.*?)```", PAGE.read_text("utf-8"), flags=re.S):
        file = tmp_path / place
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    for words in (["init", "-q"], ["add", "experiments"], ["commit", "-qm", "claims"]):
        own = ["-c", "user.name=a", "-c", "user.email=a@b"]
        subprocess.run(["git", "-C", str(tmp_path), *own, *words], check=True)
    return tmp_path


def run(line: str, checkout: Path) -> subprocess.CompletedProcess[str]:
    """A make line, with this interpreter in place of the environment that make would build."""
    shown = subprocess.run(
        ["make", "-n", "--no-print-directory", *line.split()[1:], "VENV=none", "-o", "none/.stamp"],
        cwd=checkout, capture_output=True, text=True, check=True,
    ).stdout.splitlines()[-1]  # fmt: skip
    environment = os.environ | {"PYTHONPATH": str(checkout / "src"), "OMP_NUM_THREADS": "1"}
    command = shown.replace("none/bin/python", sys.executable)
    return subprocess.run(
        ["bash", "-c", command], cwd=checkout, env=environment, capture_output=True, text=True, check=False
    )


@pytest.mark.slow
def test_the_two_commands_make_the_table(checkout: Path) -> None:
    sweep, table = commands()
    done = run(sweep, checkout)
    assert done.returncode == 0, done.stdout + done.stderr
    folder = checkout / "experiments" / "group_size"
    rows = [json.loads(line) for line in (folder / "results.jsonl").read_text("utf-8").splitlines()]
    assert [row["axes"]["algorithm.group_size"] for row in rows] == ["4", "16"]
    assert {row["steps"] for row in rows} == {4}

    done = run(table, checkout)
    assert done.returncode == 0, done.stdout + done.stderr
    with (folder / "table.csv").open(encoding="utf-8") as stream:
        cells = {(cell["row"], cell["column"]): cell for cell in csv.DictReader(stream)}
    start, after = rows[0]["before"]["greedy/ap"]["value"], rows[1]["after"]["greedy/ap"]["value"]
    assert float(cells["start", "AP"]["mean"]) == pytest.approx(100 * start, abs=0.06)
    assert float(cells["16 answers", "AP"]["mean"]) == pytest.approx(100 * after, abs=0.06)
    assert cells["4 answers", "AP"]["published"] == "12.5"
    assert "partial" in cells["16 answers", "AP"]["status"]
    text = (folder / "table.md").read_text("utf-8")
    assert "more_is_better" in text
    assert "missing" in (folder / "claims.md").read_text("utf-8")  # seeds 1 and 2 were not run
