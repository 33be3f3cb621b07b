"""A small experiment in a folder of its own: files, frozen results, and a plan without composing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from groundrl.reporting.experiments.plan import Plan
from groundrl.sweeping.cells import Cell
from groundrl.sweeping.layout import Layout
from groundrl.sweeping.results import ResultRow, append_result
from groundrl.tracking.base import Interval

REWARDS = ("ap", "ap50", "odlength", "giou")
SEEDS = (0, 1, 2)
COMMIT = "a" * 40

TABLE = """
title: Which reward
question: Does a price on boxes help?
rows:
  - {label: AP, axes: {reward: ap}, published: ap}
columns:
  - {label: mAP, metric: coco/ap, unit: percent, published: map}
"""
EXPECTED = """
sources:
  paper: {what: "A paper, Table 5", quality: exact, unit: percent}
  blog: {what: "A blog", quality: by_eye, unit: percent}
use: paper
values:
  paper: {ap: {map: 21.1, gp: 67.34}, ap50: {map: 11.4}, odlength: {map: unknown}, giou: {map: 9}}
  blog: {ap: {gp: 57.57}}
conflicts: [{row: ap, column: gp, values: {blog: 57.57, paper: 67.34}, note: prose repeats the blog}]
doubts: [one run a row]
"""


def key(reward: str, seed: int, scale: str = "paper") -> str:
    """The key that a cell has today."""
    return f"{reward}-{seed}-{scale}"


def plan(id: str, scale: str, seeds: int) -> Plan:
    """A sweep over `reward`, three seeds or more."""
    cells = [
        Cell(
            id=id,
            scale=scale,
            axes={"reward": reward},
            seed=seed,
            words=(f"experiment={id}", f"reward={reward}", f"seed={seed}"),
            key=key(reward, seed, scale),
        )
        for reward in REWARDS
        for seed in range(max(len(SEEDS), seeds))
    ]
    return Plan(id=id, scale=scale, axes={"reward": REWARDS}, seeds=SEEDS, cells=cells)


def metrics(values: Mapping[str, float], spread: float = 0.05) -> dict[str, Interval]:
    return {
        name: {"value": value, "low": value - spread, "high": value + spread}
        for name, value in values.items()
    }


class FakeExperiments:
    """A checkout at `root` with experiments in it."""

    def __init__(self, root: Path) -> None:
        self.root, self.places = root, Layout(root=root)

    def write(
        self, id: str = "x", table: str = TABLE, expected: str | None = EXPECTED, claims: str | None = None
    ) -> None:
        folder = self.root / "experiments" / id
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in (("table", table), ("expected", expected), ("claims", claims)):
            if text is not None:
                (folder / f"{name}.yaml").write_text(text, "utf-8")

    def add(
        self,
        reward: str,
        values: Sequence[float],
        *,
        id: str = "x",
        metric: str = "coco/ap",
        before: float = 0.1,
        seeds: Sequence[int] | None = None,
        old_key: str = "",
        **changes: object,
    ) -> None:
        """One frozen run a value, seeds from 0; `changes` replace fields of the row."""
        for seed, value in zip(seeds or range(len(values)), values, strict=False):
            scale = str(changes.get("scale", "paper"))
            made: dict[str, object] = {
                "key": f"{old_key}-{seed}" if old_key else key(reward, seed, scale),
                "id": id,
                "scale": scale,
                "axes": {"reward": reward},
                "twins": {},
                "seed": seed,
                "words": (f"reward={reward}", f"seed={seed}"),
                "commit": COMMIT,
                "claims_commit": COMMIT,
                "finished_at": f"2026-12-0{1 + seed % 3}T10:00:00+00:00",
                "versions": {"torch": "2.13.0"},
                "machine": {"device": "cpu"},
                "data": {"train": "d" * 16},
                "start": "f" * 64,
                "steps": 80,
                "train_seconds": 100.0,
                "samples": {"heldout": 128, "coco": 1024},
                "before": metrics({metric: before}),
                "after": metrics({metric: value}),
                "curves": {},
            }
            row = ResultRow(**{**made, **changes})  # type: ignore[arg-type]
            assert append_result(self.places.results(id), row)
