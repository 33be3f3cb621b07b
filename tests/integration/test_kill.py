"""SIGKILL at random moments, checkpoint writing included; the full-size version is `make kill-test`."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.slow
def test_killed_runs_end_bit_equal() -> None:
    command = [sys.executable, str(ROOT / "scripts" / "kill_test.py"), "--kills", "3",
               "debug=smoke"]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, cwd=ROOT)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "3 of 3 kills, 0 differ" in done.stdout
