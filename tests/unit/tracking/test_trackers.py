"""The run's own record, the composite, and the shape in which services get their numbers."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from groundrl.errors import RunFolderError
from groundrl.tracking.base import Metrics, Picture, scalars
from groundrl.tracking.composite import RunTracker
from groundrl.tracking.jsonl import JsonlTracker
from groundrl.tracking.pictures import PictureBudget


class Spy:
    """A tracker that remembers what it was told."""

    def __init__(self) -> None:
        self.calls: list[Any] = []

    def log(self, step: int, kind: str, metrics: Metrics) -> None:
        self.calls.append((step, kind, dict(metrics)))

    def show(self, pictures: Sequence[Picture]) -> None:
        self.calls.append([picture.sample_id for picture in pictures])

    def state(self) -> dict[str, Any]:
        return {"id": "abc"}

    def finish(self, status: str, summary: Metrics) -> None:
        self.calls.append((status, dict(summary)))


def read(run_dir: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (run_dir / "metrics.jsonl").read_text().splitlines()]


def test_lines_have_the_agreed_shape(tmp_path: Path) -> None:
    tracker = JsonlTracker(tmp_path)
    tracker.log(0, "eval", {"rec/acc50": {"value": 0.5, "low": 0.4, "high": float("nan")}})
    tracker.log(1, "train", {"reward/total": 0.25, "learner/kl_ref": None, "learner/loss": float("inf")})
    assert read(tmp_path) == [
        {"step": 0, "kind": "eval", "metrics": {"rec/acc50": {"value": 0.5, "low": 0.4, "high": None}}},
        {
            "step": 1,
            "kind": "train",
            "metrics": {"reward/total": 0.25, "learner/kl_ref": None, "learner/loss": None},
        },
    ]


def test_lines_can_be_read_while_the_run_goes_on(tmp_path: Path) -> None:
    tracker = JsonlTracker(tmp_path)
    tracker.log(1, "train", {"a": 1.0})
    assert len(read(tmp_path)) == 1
    tracker.finish("finished", {})
    tracker.finish("finished", {})


def test_a_new_run_refuses_a_folder_with_metrics(tmp_path: Path) -> None:
    JsonlTracker(tmp_path).log(1, "train", {"a": 1.0})
    with pytest.raises(RunFolderError, match="already holds a run"):
        JsonlTracker(tmp_path)


def test_resume_cuts_after_the_saved_step(tmp_path: Path) -> None:
    first = JsonlTracker(tmp_path)
    states: list[dict[str, Any]] = []
    for step in range(1, 6):
        first.log(step, "train", {"a": float(step)})
        states.append(first.state())
    assert states[2] == {"step": 3}
    second = JsonlTracker(tmp_path, after=3)
    assert second.state() == {"step": 3}
    second.log(4, "train", {"a": 40.0})
    assert [(line["step"], line["metrics"]["a"]) for line in read(tmp_path)] == [
        (1, 1),
        (2, 2),
        (3, 3),
        (4, 40),
    ]


def test_state_before_the_first_step(tmp_path: Path) -> None:
    assert JsonlTracker(tmp_path).state() == {"step": -1}


def test_the_composite_passes_everything_on(tmp_path: Path) -> None:
    spy = Spy()
    tracker = RunTracker(JsonlTracker(tmp_path), {"spy": spy}, PictureBudget(0))
    tracker.log(2, "train", {"a": 1.5})
    assert tracker.state() == {"step": 2, "pictures": 0, "spy": {"id": "abc"}}
    tracker.finish("interrupted", {"best": 0.5})
    assert spy.calls == [(2, "train", {"a": 1.5}), ("interrupted", {"best": 0.5})]
    assert read(tmp_path)[0]["metrics"] == {"a": 1.5}


def test_scalars_of_a_training_step() -> None:
    assert scalars("train", {"reward/total": 1, "learner/kl_ref": None}) == {"reward/total": 1.0}


def test_scalars_of_an_evaluation() -> None:
    metrics: Metrics = {
        "rec/acc50": {"value": 0.5, "low": None, "high": 0.75},
        "eval/loss": 2.0,
    }
    assert scalars("eval", metrics) == {"eval/rec/acc50": 0.5, "eval/rec/acc50/high": 0.75, "eval/loss": 2.0}
