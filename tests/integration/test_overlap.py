"""Whole runs that draw the next batch while the learner steps, on a fake server: that both go on at once, and
that nothing else changes."""

from __future__ import annotations

import json
import shutil
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import train
from scripts.kill_test import outcome
from tests.cli import make_cli
from tests.fake_vllm_server import FakeServer
from tests.served import speak, told_by_content

from groundrl.learner.learner import Learner
from groundrl.rollout.engines.vllm_server_engine import VllmServerEngine
from groundrl.training.ahead import Ahead

PATIENCE_S = 30.0
pytestmark = pytest.mark.slow
Run = Callable[..., Path]


@pytest.fixture
def server(tiny_policy) -> Iterator[FakeServer]:
    """Its answers and their log-probs tell which weights made them."""
    fake = FakeServer()
    speak(fake, tiny_policy.processor)
    fake.weigh = told_by_content
    with fake.running():
        yield fake


@pytest.fixture
def run(server, monkeypatch, capsys, tmp_path: Path) -> Run:
    """Runs the words in a folder of that name; no words: goes on with it."""
    cli = make_cli(monkeypatch, capsys)

    def call(name: str, *words: str) -> Path:
        if not words:
            words = (f"resume={tmp_path / name}",)
        else:
            more = ["debug=smoke", "eval.samples=2", "eval.resamples=100", "rollout/engine=vllm_server"]
            more += [f"rollout.engine.urls=[{server.url}]", "rollout.engine.backoff_s=0.001"]
            words = (*more, f"paths.output_dir={tmp_path / name}", *words)
        done = cli(*words, job=train.job, ready=train.ready)
        assert done.code == 0, done.err
        return tmp_path / name

    return call


def sequential(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(VllmServerEngine, "concurrent", False)


def lines(folder: Path, name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / name).read_text("utf-8").splitlines()]


def metrics(folder: Path, name: str) -> list[float]:
    known = [line["metrics"] for line in lines(folder, "metrics.jsonl") if line["kind"] == "train"]
    return [line[name] for line in known if name in line]


@dataclass(slots=True)
class Watched:
    """drawing: a batch is drawn beside the learner; begun: the learner has begun; asked: something of the
    batch was asked for."""

    drawing: threading.Event = field(default_factory=threading.Event)
    begun: threading.Event = field(default_factory=threading.Event)
    asked: threading.Event = field(default_factory=threading.Event)


@pytest.fixture
def watched(monkeypatch: pytest.MonkeyPatch) -> Watched:
    out, begin, settle = Watched(), Ahead._begin, Ahead.settle

    def began(self: Ahead, *given: Any) -> None:
        out.begun.clear()
        out.asked.clear()
        out.drawing.set()
        begin(self, *given)

    def settled(self: Ahead, clock: Any) -> dict[str, float]:
        told = settle(self, clock)
        out.drawing.clear()
        return told

    monkeypatch.setattr(Ahead, "_begin", began)
    monkeypatch.setattr(Ahead, "settle", settled)
    return out


def test_the_learner_steps_while_the_server_draws(run: Run, server, watched: Watched, monkeypatch) -> None:
    """The next batch is answered only once the learner has begun, and the learner ends only once the batch
    was asked for: one after the other, each would wait for ever. No push meets a request."""
    plain, pushes = Learner.step, []
    expected = iter((True, True, True, False))  # 4 steps; behind the last there is no batch

    def answer() -> None:
        if watched.drawing.is_set():
            watched.asked.set()
            assert watched.begun.wait(PATIENCE_S)

    def step(self: Learner, experience: Any) -> Any:
        watched.begun.set()
        if next(expected):
            assert watched.asked.wait(PATIENCE_S)
        pushes.append(len(server.given))
        return plain(self, experience)

    monkeypatch.setattr(Learner, "step", step)
    server.before = answer
    folder = run("beside", "rollout.max_lag=1")
    assert next(expected, None) is None
    assert server.overtaken == 0
    assert pushes == [1, 2, 3, 4]
    assert len(metrics(folder, "perf/rollout_hidden_s")) == 3
    assert min(metrics(folder, "perf/rollout_hidden_s")) > 0
    assert len(metrics(folder, "time/rollout")) == 4 - 1


@pytest.mark.parametrize("max_lag", [1, 2])
def test_numbers_are_those_of_the_same_lag_one_after_the_other(run: Run, monkeypatch, max_lag) -> None:
    """Answers and log-probs name their weights, so one other push before a draw would be another run."""
    lag = f"rollout.max_lag={max_lag}"
    beside = run("beside", lag)
    assert metrics(beside, "perf/rollout_hidden_s") != []
    sequential(monkeypatch)
    after = run("after", lag)
    assert metrics(after, "perf/rollout_hidden_s") == []
    assert outcome(beside) == outcome(after)
    assert lines(beside, "rollouts.jsonl") == lines(after, "rollouts.jsonl")
    assert len(set(metrics(beside, "learner/mismatch_max"))) > 1


def test_with_lr_0_it_draws_what_a_synchronous_run_draws(run: Run) -> None:
    still = "algorithm.lr=0"
    plain, beside = run("plain", still), run("beside", still, "rollout.max_lag=1")
    assert lines(beside, "rollouts.jsonl") == lines(plain, "rollouts.jsonl")
    assert metrics(beside, "learner/lag_mean") == [0, 1, 1, 1]
    assert metrics(beside, "reward/total") == metrics(plain, "reward/total")


def test_dynamic_sampling_fills_batches_up_as_it_would_one_after_the_other(run: Run, monkeypatch) -> None:
    words = ("rollout.max_lag=1", "algorithm.dynamic_sampling.max_rounds=2", "algorithm.group_size=2")
    beside = run("beside", *words)
    sequential(monkeypatch)
    assert outcome(beside) == outcome(run("after", *words))
    assert max(metrics(beside, "group/rounds")) > 0


def test_a_run_that_ended_while_drawing_ahead_goes_on_to_the_bit(run: Run, tmp_path: Path) -> None:
    """The checkpoint of step 2 holds the batch of step 3, whole, though it was drawn beside step 2."""
    alone = run("alone", "rollout.max_lag=1")
    saved = json.loads((alone / "checkpoints/step-000002/state.json").read_text("utf-8"))["method"]
    assert [(one["step"], one["at"], len(one["completions"])) for one in saved["ahead"]] == [(2, 1, 8)]
    killed = tmp_path / "killed"
    shutil.copytree(alone, killed)
    shutil.rmtree(killed / "checkpoints/step-000004")
    (killed / "result.json").unlink()
    assert outcome(run("killed")) == outcome(alone)


def test_what_fails_beside_the_learner_is_the_runs_error(
    run: Run, server, watched: Watched, monkeypatch
) -> None:
    """With its kind's exit code, process and stage; it surfaces before weights are pushed."""
    plain = Learner.step

    def step(self: Learner, experience: Any) -> Any:
        server.fail = 10**6
        watched.begun.set()
        return plain(self, experience)

    def answer() -> None:
        if watched.drawing.is_set():
            assert watched.begun.wait(PATIENCE_S)
            server.status = 500

    monkeypatch.setattr(Learner, "step", step)
    server.before = answer
    with pytest.raises(
        AssertionError, match=r"error: vllm_server, rank 0: generate failed 2 times with 0 of 8"
    ):
        run("failing", "rollout.max_lag=1", "rollout.engine.retries=1")
    assert len(server.given) == 1


def test_an_error_of_the_learner_does_not_wait_for_the_draw(
    run: Run, server, watched: Watched, monkeypatch
) -> None:
    """The draw would take until the server is shut down."""

    def step(self: Learner, experience: Any) -> Any:
        assert watched.asked.wait(PATIENCE_S)
        raise ZeroDivisionError("on purpose")

    def never() -> None:
        if watched.drawing.is_set():
            watched.asked.set()
            server.ended.wait()

    monkeypatch.setattr(Learner, "step", step)
    server.before = never
    with pytest.raises(ZeroDivisionError, match="on purpose"):
        run("failing", "rollout.max_lag=1")
    assert not [one for one in threading.enumerate() if one.name.startswith("groundrl-ahead")]
