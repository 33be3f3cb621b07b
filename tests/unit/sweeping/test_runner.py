"""The runner with a train.py that only pretends: failing, killed, interrupted, shared and lost runs."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from tests.unit.sweeping.checkout import Checkout, wait_for

from groundrl.sweeping.cell_folder import CellFolder, FolderState
from groundrl.sweeping.cells import Cell
from groundrl.sweeping.results import read_results
from groundrl.sweeping.run import main

AP = "reward=ap model=tiny eval.samples=4 seed=0"
ODLENGTH = "reward=odlength model=tiny eval.samples=4 seed=0"


def run(checkout: Checkout, *argv: str) -> int:
    return main([*argv, "--scale", "tiny"], layout=checkout.layout)


def folder(checkout: Checkout, cell: Cell) -> CellFolder:
    return CellFolder(path=checkout.layout.runs(cell.id, cell.scale) / cell.folder_name)


def test_each_cell_runs_once_and_never_again(checkout: Checkout, capsys: pytest.CaptureFixture[str]) -> None:
    checkout.pretend("pair")
    assert run(checkout, "pair") == 0
    assert checkout.starts() == [f"begin {AP}", f"begin {ODLENGTH}"]
    first, second = checkout.rows("pair")
    assert first.axes == {"reward": "ap"}
    assert first.words == tuple(AP.split())
    assert first.twins == {"model": ("qwen3b", "tiny")}
    assert (first.seed, first.scale, first.steps, first.train_seconds) == (0, "tiny", 3, 1.5)
    assert first.key == checkout.cells("pair")[0].key != second.key
    assert first.measured["greedy/ap"]["value"] == 0.375
    assert first.curves == {"reward/total": [(1, 0.125), (2, 0.25), (3, 0.375)]}
    out = capsys.readouterr().out
    assert "2 cells: 0 have results, 0 copied from other experiments, 2 to run, 0 not testable" in out
    assert "cell 2 of 2 done: reward=odlength seed 0, 3 steps in 2s, greedy/ap 0.375" in out
    assert "these runs will not count for claims" in out

    shutil.rmtree(checkout.root / "outputs")
    assert run(checkout, "pair", "--jobs", "2") == 0
    assert len(checkout.starts()) == 2
    assert len(checkout.rows("pair")) == 2
    assert "2 cells: 2 have results" in capsys.readouterr().out


def test_a_folder_of_ones_own_runs_everything_again_and_touches_nothing_else(
    checkout: Checkout, capsys: pytest.CaptureFixture[str]
) -> None:
    checkout.pretend("pair")
    assert run(checkout, "pair") == 0
    frozen = checkout.layout.results("pair").read_bytes()
    mine = checkout.root / "mine"
    assert run(checkout, "pair", "--into", str(mine)) == 0
    assert checkout.starts() == 2 * [f"begin {AP}", f"begin {ODLENGTH}"]
    assert len(read_results(mine / "pair" / "results.jsonl")) == 2
    assert (mine / "pair" / "lock-tiny.json").is_file()
    assert len(list((mine / "pair" / "runs" / "tiny").glob("reward=*"))) == 2
    assert checkout.layout.results("pair").read_bytes() == frozen
    assert run(checkout, "pair", "--into", str(mine)) == 0
    assert len(checkout.starts()) == 4
    assert "2 cells: 2 have results" in capsys.readouterr().out


def test_a_failing_cell_is_named_and_the_others_go_on(
    checkout: Checkout, capsys: pytest.CaptureFixture[str]
) -> None:
    checkout.pretend("pair", fail=["reward=ap"])
    assert run(checkout, "pair") == 1
    assert [row.axes["reward"] for row in checkout.rows("pair")] == ["odlength"]
    out = capsys.readouterr().out.splitlines()
    place = f"outputs/sweeps/pair/tiny/{checkout.cells('pair')[0].folder_name}"
    at = out.index(f"failed: reward=ap seed 0: exit code 1; log {place}/cell.log")
    assert out[at + 1 : at + 4] == [
        "    | some output",
        "    | error: the disk is full",
        f"    again: python train.py resume={place}",
    ]
    assert "1 cells are left; go on with: make sweep ID=pair SCALE=tiny" in out

    checkout.pretend(fail=[])
    assert run(checkout, "pair") == 0
    assert checkout.starts()[2:] == [f"resume {AP} at 0"]
    assert len(checkout.rows("pair")) == 2


def test_a_run_that_is_killed_with_everything_goes_on_at_its_step(checkout: Checkout) -> None:
    checkout.pretend("pair", steps=8, step_s=0.1)
    cell = checkout.cells("pair")[1]
    runner = checkout.start("pair", "--scale", "tiny")
    wait_for(lambda: folder(checkout, cell).step() >= 2)  # the first cell is done by then
    runner.kill()
    runner.communicate()
    pid = int((folder(checkout, cell).path / "run.lock").read_text())
    os.kill(pid, signal.SIGKILL)
    wait_for(lambda: folder(checkout, cell).state() is FolderState.resumable)
    done = folder(checkout, cell).step()
    assert len(checkout.rows("pair")) == 1
    assert run(checkout, "pair") == 0
    assert checkout.starts() == [f"begin {AP}", f"begin {ODLENGTH}", f"resume {ODLENGTH} at {done}"]
    assert len(checkout.rows("pair")) == 2


def test_a_run_that_outlived_its_sweep_is_waited_for(checkout: Checkout) -> None:
    checkout.pretend("pair", steps=8, step_s=0.15)
    cell = checkout.cells("pair")[0]
    runner = checkout.start("pair", "--scale", "tiny")
    wait_for(lambda: folder(checkout, cell).step() >= 1)
    runner.kill()
    runner.communicate()
    assert folder(checkout, cell).state() is FolderState.running
    assert run(checkout, "pair") == 0
    assert checkout.starts() == [f"begin {AP}", f"begin {ODLENGTH}"]
    assert len(checkout.rows("pair")) == 2


def test_a_signal_is_passed_on_and_the_sweep_says_how_to_go_on(checkout: Checkout) -> None:
    checkout.pretend("pair", steps=200, step_s=0.05)
    cells = checkout.cells("pair")
    runner = checkout.start("pair", "--scale", "tiny", "--jobs", "2")
    wait_for(lambda: all(folder(checkout, cell).step() >= 1 for cell in cells))
    runner.send_signal(signal.SIGTERM)
    out, _ = runner.communicate(timeout=60)
    assert runner.returncode == 128 + signal.SIGTERM, out
    assert all(folder(checkout, cell).state() is FolderState.resumable for cell in cells)
    assert "2 cells are left; go on with: make sweep ID=pair SCALE=tiny JOBS=2" in out
    assert "failed" not in out
    checkout.pretend(steps=1 + max(folder(checkout, cell).step() for cell in cells), step_s=0.0)
    assert run(checkout, "pair") == 0
    assert [start.split()[0] for start in checkout.starts()] == ["begin", "begin", "resume", "resume"]


def test_a_second_signal_kills(checkout: Checkout) -> None:
    checkout.pretend("pair", steps=200, step_s=0.05, stubborn=True)
    cell = checkout.cells("pair")[0]
    runner = checkout.start("pair", "--scale", "tiny")
    wait_for(lambda: folder(checkout, cell).step() >= 1)
    runner.send_signal(signal.SIGINT)
    with pytest.raises(subprocess.TimeoutExpired):  # the run does not end by itself
        runner.wait(0.5)
    runner.send_signal(signal.SIGINT)
    out, _ = runner.communicate(timeout=60)
    assert runner.returncode == 128 + signal.SIGINT, out
    assert folder(checkout, cell).state() is FolderState.resumable


def test_two_sweeps_of_one_id_at_a_time_are_refused(
    checkout: Checkout, capsys: pytest.CaptureFixture[str]
) -> None:
    checkout.pretend("pair", steps=200, step_s=0.05)
    cell = checkout.cells("pair")[0]
    runner = checkout.start("pair", "--scale", "tiny")
    wait_for(lambda: folder(checkout, cell).step() >= 1)
    assert run(checkout, "pair") == 2
    assert f"the sweep pair is already being run by process {runner.pid}" in capsys.readouterr().err
    runner.send_signal(signal.SIGTERM)
    runner.communicate(timeout=60)


def test_a_folder_without_settings_is_moved_aside_and_nothing_is_deleted(
    checkout: Checkout, capsys: pytest.CaptureFixture[str]
) -> None:
    checkout.pretend("pair")
    cell = checkout.cells("pair")[0]
    own = folder(checkout, cell)
    checkout.write(str((own.path / "config.yaml").relative_to(checkout.root)), "seed: 0\n")
    (own.path / "notes.txt").write_text("mine")
    assert own.state() is FolderState.half_made
    assert run(checkout, "pair") == 0
    aside = own.path.with_name(f"{own.path.name}.aside-1")
    assert (aside / "notes.txt").read_text() == "mine"
    assert f"moved to {aside.relative_to(checkout.root)}" in capsys.readouterr().out
    assert len(checkout.rows("pair")) == 2


def test_a_result_whose_settings_are_others_is_not_taken(
    checkout: Checkout, capsys: pytest.CaptureFixture[str]
) -> None:
    checkout.pretend("pair")
    config = checkout.fake["configs"][AP]
    config["algorithm"]["lr"] = 0.5
    checkout.pretend()
    assert run(checkout, "pair") == 1
    assert [row.axes["reward"] for row in checkout.rows("pair")] == ["odlength"]
    assert "has other settings (key" in capsys.readouterr().out


def test_cells_shared_by_two_sweeps_run_once(checkout: Checkout, capsys: pytest.CaptureFixture[str]) -> None:
    """`again` has pair's cells under other axes, and one of its own twice under two names."""
    checkout.sweep("again", "model: {values: [qwen3b]}\nreward: {values: [ap, ap50]}\nseed: {values: [0]}")
    checkout.pretend("pair", "again")
    assert run(checkout, "pair") == 0
    assert run(checkout, "again") == 0
    assert checkout.starts()[2:] == ["begin reward=ap50 model=tiny eval.samples=4 seed=0"]
    shared, own = checkout.rows("again")
    original = checkout.rows("pair")[0]
    assert shared == replace(original, id="again", axes={"model": "qwen3b", "reward": "ap"})
    assert own.axes == {"model": "qwen3b", "reward": "ap50"}
    assert "copied: model=qwen3b,reward=ap seed 0 was run for pair" in capsys.readouterr().out


def test_cells_of_one_sweep_with_equal_settings_run_once(checkout: Checkout) -> None:
    checkout.sweep(
        "pair", "algorithm.lr: {values: ['1e-3', '0.001']}\nmodel: {value: qwen3b}\nreward: {value: ap}"
    )
    checkout.pretend("pair")
    assert run(checkout, "pair") == 0
    assert len(checkout.starts()) == 1
    assert [row.axes for row in checkout.rows("pair")] == [
        {"algorithm.lr": "1e-3"},
        {"algorithm.lr": "0.001"},
    ]
    assert run(checkout, "pair") == 0
    assert len(checkout.starts()) == 1


def test_what_changed_since_the_last_call_is_said_and_results_are_kept(
    checkout: Checkout, capsys: pytest.CaptureFixture[str]
) -> None:
    checkout.pretend("pair")
    assert run(checkout, "pair") == 0
    capsys.readouterr()
    checkout.sweep("pair", "model: {value: qwen3b}\nreward: {values: [ap, ap50]}\nseed: {values: [0]}")
    checkout.pretend("pair")
    assert run(checkout, "pair") == 0
    out = capsys.readouterr().out
    assert "changed since the last call: new: reward=ap50 seed 0" in out
    assert "no longer in the sweep (results are kept): reward=odlength seed 0" in out
    assert [row.axes["reward"] for row in checkout.rows("pair")] == ["ap", "odlength", "ap50"]

    scale = Path(checkout.layout.scale("tiny"))
    scale.write_text(scale.read_text().replace("eval.samples=4", "eval.samples=5"))
    checkout.pretend("pair")
    assert run(checkout, "pair") == 0
    out = capsys.readouterr().out
    assert "(eval.samples=4 became eval.samples=5)" in out
    assert len(checkout.rows("pair")) == 5  # new keys, so run again; the old rows stay


def test_more_seeds_run_only_what_is_new(checkout: Checkout) -> None:
    checkout.pretend("pair", seeds=2)
    assert run(checkout, "pair") == 0
    assert run(checkout, "pair", "--seeds", "2") == 0
    assert checkout.starts()[2:] == [f"begin {AP[:-1]}1", f"begin {ODLENGTH[:-1]}1"]
