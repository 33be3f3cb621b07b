"""A sweep of real runs: killed with everything that it started, called again, and called once more."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from pathlib import Path

import pytest
from tests.unit.sweeping.checkout import REPO, Checkout, wait_for

from groundrl.sweeping.cell_folder import CellFolder, FolderState
from groundrl.sweeping.run import main

SCALE = """
words: [eval.samples=4, eval.sampled_k=0, eval.every=0, eval.resamples=100, checkpoint.every=1,
        algorithm.num_steps=12, algorithm.prompts_per_step=2, algorithm.group_size=4]
twins: {model: {qwen3b: tiny}}
"""


def children(pid: int) -> list[int]:
    """Processes that `pid` started."""
    listed = subprocess.run(["ps", "-A", "-o", "pid=,ppid="], capture_output=True, text=True, check=True)
    pairs = (line.split() for line in listed.stdout.splitlines())
    return [int(child) for child, parent in pairs if int(parent) == pid]


@pytest.mark.slow
def test_a_killed_sweep_goes_on_from_its_checkpoints(tmp_path: Path) -> None:
    checkout = Checkout(root=tmp_path)
    for name in ("train.py", "conf"):
        (tmp_path / name).symlink_to(REPO / name)
    checkout.write("sweeps/scales/tiny.yaml", SCALE)
    checkout.sweep("pair", "model: {value: qwen3b}\nreward: {values: [ap, odlength]}\nseed: {values: [0]}")
    argv = ["pair", "--scale", "tiny", "--jobs", "2"]
    runs = checkout.layout.runs("pair", "tiny")
    folders = [CellFolder(path=runs / cell.folder_name) for cell in checkout.cells("pair")]

    runner = checkout.start(*argv)
    wait_for(lambda: any((one.run / "checkpoints/step-000002").is_dir() for one in folders), 300)
    started = children(runner.pid)
    assert len(started) == 2
    runner.kill()
    for pid in started:
        os.kill(pid, signal.SIGKILL)
    runner.communicate()
    wait_for(lambda: not any(one.state() is FolderState.running for one in folders))
    assert checkout.rows("pair") == []
    saved = [sorted(path.name for path in (one.run / "checkpoints").glob("step-*")) for one in folders]
    assert max(names[-1] for names in saved if names) < "step-000012"  # in the middle

    assert main(argv, layout=checkout.layout) == 0
    assert len(checkout.rows("pair")) == 2
    for one, names in zip(folders, saved, strict=True):
        lines = [json.loads(line) for line in (one.run / "metrics.jsonl").read_text("utf-8").splitlines()]
        assert [line["step"] for line in lines if line["kind"] == "train"] == list(range(1, 13))
        if names:
            assert f"resumed from {names[-1]}" in one.log.read_text("utf-8")
    rows = sorted(checkout.rows("pair"), key=lambda row: row.axes["reward"])
    for row, cell in zip(rows, checkout.cells("pair"), strict=True):
        assert (row.axes, row.key, row.steps) == (cell.axes, cell.key, 12)
        assert {"greedy/ap", "greedy/tokens_mean"} <= set(row.before) & set(row.after)
        assert [step for step, _ in row.curves["reward/total"]] == list(range(1, 13))
        assert row.samples == {"heldout": 4}
        assert len(row.start or "") >= 64

    logs = [one.log.read_bytes() for one in folders]
    assert main(argv, layout=checkout.layout) == 0
    assert [one.log.read_bytes() for one in folders] == logs
    assert len(checkout.rows("pair")) == 2
