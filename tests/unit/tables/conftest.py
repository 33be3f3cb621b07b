"""Fixtures of the table and claims tests."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.unit.tables.fake_experiment import FakeExperiments


@pytest.fixture
def experiments(tmp_path: Path) -> FakeExperiments:
    return FakeExperiments(tmp_path)
