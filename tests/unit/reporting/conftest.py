"""Fixtures of the report tests: run folders with made-up content."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest


def _load(name: str) -> Any:
    spec = importlib.util.spec_from_file_location(name, Path(__file__).with_name(f"{name}.py"))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="session")
def make_run() -> Callable[..., Path]:
    """`make_run(folder, steps=, samples=, evals=, train_every=)` writes a run folder and returns it."""
    return _load("fake_run").make_run


@pytest.fixture
def run_dir(tmp_path: Path, make_run: Callable[..., Path]) -> Path:
    """A small finished run."""
    return make_run(tmp_path / "shapes" / "iou-s3", steps=12, samples=2, evals=3, train_every=6)
