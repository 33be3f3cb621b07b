"""A whole GRPO run with the `hf` engine makes the tiny model better at what it is paid for."""

from __future__ import annotations

from pathlib import Path

from tests.cli import make_cli
from tests.learning import assert_a_run_learns


def test_a_run_learns(tmp_path: Path, monkeypatch, capsys) -> None:
    assert_a_run_learns(make_cli(monkeypatch, capsys), tmp_path, "hf")
