"""Runs of two processes, each with a server of its own: the numbers of one process, also when a server is
started again in the middle; and no process that hangs when one is lost."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from tests.fake_vllm_server import FakeServer
from tests.integration.test_processes import ROOT, command, run, steps
from tests.served import speak

pytestmark = pytest.mark.slow


@pytest.fixture
def servers(tiny_policy) -> Iterator[list[FakeServer]]:
    """Their log-probs count pushes of different weights."""
    with ExitStack() as stack:
        out = [stack.enter_context(FakeServer().running()) for _ in range(3)]
        for server in out:
            speak(server, tiny_policy.processor)
            server.weigh = lambda given: -float(len(set(given)))
        yield out


def words(folder: Path, *servers: FakeServer) -> list[str]:
    urls = ",".join(server.url for server in servers)
    out = ["debug=smoke", "eval.samples=2", "eval.resamples=100", "eval.every=0", "algorithm.num_steps=3"]
    out += ["rollout/engine=vllm_server", f"rollout.engine.urls=[{urls}]", "rollout.max_lag=1"]
    return [*out, "rollout.engine.backoff_s=0.01", f"paths.output_dir={folder}"]


def test_two_processes_give_the_numbers_of_one(servers, tmp_path: Path) -> None:
    """The second process' server is started again in the middle of a batch that is drawn ahead."""
    only, first, second = servers
    run(*words(tmp_path / "one", only), processes=1)
    second.forget = 9  # behind an evaluation and a batch of 4
    run(*words(tmp_path / "two", first, second))
    assert second.forget == 0
    one, two = steps(tmp_path / "one"), steps(tmp_path / "two")
    assert len(one) == len(two) == 3
    for ours, theirs in zip(one, two, strict=True):
        for name in ("reward/total", "learner/grad_norm", "learner/lag_mean"):
            assert theirs[name] == pytest.approx(ours[name], rel=1e-4), name
        assert theirs["learner/mismatch_max"] == pytest.approx(ours["learner/mismatch_max"], abs=1e-3)
    # each prompt was asked for once: by one process, or by either of two
    asked = sorted(first.asked + second.asked)
    assert [one for one in asked if one not in only.asked] == []
    assert len(only.asked) <= len(asked) <= len(only.asked) + 8  # what the new start made void
    # one push for each weights and server, one more for the server that was started again
    assert len(set(first.given)) == len(first.given) == len(set(second.given)) == len(only.given)
    assert len(second.given) == len(first.given) + 1
    assert not set(first.given) & set(second.given)


def test_a_lost_server_ends_all_processes(servers, tmp_path: Path) -> None:
    """It dies with a batch under way. Its process says so; the other one waits for nobody."""
    first, second, _ = servers

    def answer() -> None:
        if len(second.asked) == 9:
            second.die()

    second.before = answer
    more = ["rollout.engine.retries=1", "rollout.engine.startup_timeout_s=1"]
    done = subprocess.run(
        command(*words(tmp_path / "run", first, second), *more),
        capture_output=True, text=True, cwd=ROOT, timeout=120,
    )  # fmt: skip
    assert done.returncode != 0
    assert "vllm_server, rank 1: not healthy after 1 s" in done.stderr
    left = subprocess.run(["pgrep", "-f", str(tmp_path)], capture_output=True, text=True).stdout
    assert left == ""
