"""docs/rewards.md names every rubric and every term, and nothing that does not exist."""

from __future__ import annotations

import re
from pathlib import Path

from groundrl.config.repo import groups

PAGE = Path(__file__).resolve().parents[3] / "docs" / "rewards.md"


def first_column(title: str) -> set[str]:
    section = PAGE.read_text("utf-8").split(f"## {title}\n")[1].split("\n## ")[0]
    cells = [line.split("|")[1] for line in section.splitlines() if line.startswith("| `")]
    assert cells
    return {name for cell in cells for name in re.findall(r"`(\w+)`", cell)}


def test_the_page_lists_what_exists() -> None:
    assert first_column("Rubrics") == set(groups()["reward"])
    assert first_column("Terms") == set(groups()["reward/term"])
