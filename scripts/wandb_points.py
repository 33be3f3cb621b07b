"""Writes tests/golden/wandb_points.json: what the sampler of W&B makes of sweep files.

    python -m venv env && env/bin/pip install sweeps==0.3.0
    env/bin/python scripts/wandb_points.py

The package `sweeps` needs numpy below 2, so it cannot be in the project's own environment; the file it wrote
is what tests compare with. A random sweep is drawn with Python's generator seeded by 0.
"""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import yaml
from sweeps.grid_search import grid_search_next_runs  # pyright: ignore[reportMissingImports]
from sweeps.random_search import random_search_next_runs  # pyright: ignore[reportMissingImports]

GOLDEN = Path(__file__).resolve().parents[1] / "tests" / "golden"
MOST = 1000


def points(content: dict[str, Any]) -> list[dict[str, Any]]:
    """The points in W&B's order, each parameter's value by name."""
    if content["method"] == "grid":
        runs: list[Any] = grid_search_next_runs([], content, n=MOST)
    else:
        random.seed(0)
        runs = random_search_next_runs(content, n=content["run_cap"])
    made = [{name: entry["value"] for name, entry in run.config.items()} for run in runs if run is not None]
    return made[: content.get("run_cap", MOST)]


def main() -> None:
    files = sorted((GOLDEN / "wandb_sweeps").glob("*.yaml"))
    found = {file.stem: points(yaml.safe_load(file.read_text("utf-8"))) for file in files}
    (GOLDEN / "wandb_points.json").write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
