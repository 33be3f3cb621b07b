"""Whole runs with batches drawn ahead: what they draw, and that a queue survives the end of a process; and a
run in which updates are skipped."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import train
from scripts.kill_test import outcome
from tests.cli import make_cli

from groundrl.learner.objective import PolicyObjective

Run = Callable[..., Path]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Run:
    """Runs the words in a folder of that name."""
    cli = make_cli(monkeypatch, capsys)

    def call(name: str, *words: str) -> Path:
        given = words or (f"resume={tmp_path / name}",)
        more = [] if not words else ["debug=smoke", "eval.samples=2", f"paths.output_dir={tmp_path / name}"]
        done = cli(*more, *given, job=train.job, ready=train.ready)
        assert done.code == 0, done.err
        return tmp_path / name

    return call


def lines(folder: Path, name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / name).read_text("utf-8").splitlines()]


def metrics(folder: Path, name: str) -> list[float]:
    return [line["metrics"][name] for line in lines(folder, "metrics.jsonl") if line["kind"] == "train"]


def test_with_lr_0_a_lag_draws_what_a_synchronous_run_draws_step_by_step(run: Run) -> None:
    still = "algorithm.lr=0"
    plain, lagged = run("plain", still), run("lagged", still, "rollout.max_lag=1")
    assert len(lines(plain, "rollouts.jsonl")) == 4 * 2 * 4
    assert lines(lagged, "rollouts.jsonl") == lines(plain, "rollouts.jsonl")
    assert metrics(lagged, "learner/lag_mean") == [0, 1, 1, 1]
    assert max(metrics(lagged, "learner/approx_kl")) < 1e-9
    assert metrics(lagged, "learner/grad_norm") == pytest.approx(
        metrics(plain, "learner/grad_norm"), rel=1e-3
    )


def test_a_run_that_ends_with_a_queue_goes_on_to_the_bit(run: Run, tmp_path: Path) -> None:
    """The checkpoint of step 2 holds the batches of steps 3 and 4, which were drawn with other weights."""
    alone = run("alone", "rollout.max_lag=2")
    saved = json.loads((alone / "checkpoints/step-000002/state.json").read_text("utf-8"))["method"]
    assert [(one["step"], one["at"]) for one in saved["ahead"]] == [(2, 0), (3, 1)]
    assert metrics(alone, "learner/approx_kl")[2] > 1e-6
    killed = tmp_path / "killed"
    shutil.copytree(alone, killed)
    shutil.rmtree(killed / "checkpoints/step-000004")
    (killed / "result.json").unlink()
    assert outcome(run("killed")) == outcome(alone)
    assert json.loads((killed / "result.json").read_text("utf-8"))["run"]["memory"].startswith("about ")


def test_a_run_keeps_the_batches_of_skipped_updates(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows of the largest advantage in the run's first two steps give nan."""
    plain = PolicyObjective.__call__

    def poisoned(self: PolicyObjective, scores: Any, batch: Any) -> Any:
        loss, sums = plain(self, scores, batch)
        return (loss * float("nan") if bool((batch.advantages > 1.2).any()) else loss), sums

    monkeypatch.setattr(PolicyObjective, "__call__", poisoned)
    folder = run("bad", "algorithm.optim.max_nonfinite=9")
    skipped = metrics(folder, "learner/skipped")
    files = sorted(path.name for path in (folder / "nonfinite").iterdir())
    assert files == [f"step-{n + 1:06d}.jsonl" for n, one in enumerate(skipped) if one == 1.0] != []
    rollouts = lines(folder, "rollouts.jsonl")
    for name in files:
        stored = lines(folder, f"nonfinite/{name}")
        assert len(stored) == 8
        known = [one for one in rollouts if one["step"] == int(name[5:11])]
        assert [{key: one[key] for key in known[0]} for one in stored] == known
        assert [bool(one["not_finite"]) for one in stored] == [one["advantage"] > 1.2 for one in stored]
        assert any(one["not_finite"] == ["loss"] for one in stored)
    assert all(torch.isfinite(torch.tensor(value)) for value in metrics(folder, "reward/total"))
