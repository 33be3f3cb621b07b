"""A whole GRPO run with vLLM learns as the same run with `hf` does (tests/integration/test_learns.py)."""

from __future__ import annotations

from pathlib import Path

from tests.cli import make_cli
from tests.learning import assert_a_run_learns


def test_a_run_learns(tmp_path: Path, monkeypatch, capsys) -> None:
    assert_a_run_learns(make_cli(monkeypatch, capsys), tmp_path, "vllm")
