"""What the files of an experiment say, read plainly."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import yaml

from groundrl.config.repo import repo_root

ROOT = repo_root()
IDS = sorted(path.name for path in (ROOT / "experiments").iterdir() if path.is_dir())
SCALES = ("paper", "one_gpu", "tiny")
FILES = ("README.md", "table.yaml", "expected.yaml", "claims.yaml")


@cache
def content(file: Path) -> Any:
    return yaml.safe_load(file.read_text("utf-8"))


def experiment(id: str, name: str) -> Any:
    """`table`, `expected` or `claims` of an experiment."""
    return content(ROOT / "experiments" / id / f"{name}.yaml")


def sides(id: str) -> list[tuple[str, dict[str, str]]]:
    """(experiment, axes) of each cell that the table or a claim of `id` compares."""
    found = [(row.get("from", id), row["axes"]) for row in experiment(id, "table")["rows"]]
    for claim in experiment(id, "claims")["claims"]:
        for test in claim.get("tests", []):
            for side in (test["a"], test["b"]):
                if side != "before":
                    axes = {name: value for name, value in side.items() if name != "from"}
                    found.append((side.get("from", id), axes))
    return found
