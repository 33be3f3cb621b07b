"""Runs by hand taken into a sweep, the commit of the claims, launchers, and the words of the command line."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from tests.unit.sweeping.checkout import Checkout

from groundrl.config.words import parted
from groundrl.sweeping import collect, run
from groundrl.sweeping.cell_folder import CellFolder
from groundrl.sweeping.claims_commit import claims_commit
from groundrl.sweeping.launcher import LauncherName, command


def git(root: Path, *words: str) -> str:
    identity = ("-c", "user.name=n", "-c", "user.email=e@e")
    done = subprocess.run(
        ["git", "-C", str(root), *identity, *words], capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


def commit(checkout: Checkout, text: str) -> str:
    checkout.write("experiments/pair/claims.yaml", text)
    git(checkout.root, "add", "-A", "experiments")
    git(checkout.root, "commit", "-qm", text)
    return git(checkout.root, "rev-parse", "HEAD")


def test_claims_count_only_when_they_were_committed_before(
    checkout: Checkout, capsys: pytest.CaptureFixture[str]
) -> None:
    assert claims_commit(checkout.layout, "pair") is None  # no repository
    git(checkout.root, "init", "-q")
    assert claims_commit(checkout.layout, "pair") is None
    checkout.write("experiments/pair/claims.yaml", "a")
    assert claims_commit(checkout.layout, "pair") is None  # not committed
    first = commit(checkout, "a")
    second = commit(checkout, "b")
    checkout.write("other", "c")
    git(checkout.root, "add", "other")
    git(checkout.root, "commit", "-qm", "no claims in it")
    assert claims_commit(checkout.layout, "pair") == second
    assert claims_commit(checkout.layout, "pair", at=f"{first}+changes") == first
    assert claims_commit(checkout.layout, "pair", at="unknown") is None
    checkout.pretend("pair", commit=first)
    assert run.main(["pair", "--scale", "tiny"], layout=checkout.layout) == 0
    assert [row.claims_commit for row in checkout.rows("pair")] == [second, second]
    assert "will not count" not in capsys.readouterr().out
    checkout.write("experiments/pair/claims.yaml", "c")
    assert claims_commit(checkout.layout, "pair") is None  # changed


def test_runs_by_hand_are_known_by_their_settings(
    checkout: Checkout, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of three runs under other names one is pair's, one was not finished and one belongs to nobody."""
    git(checkout.root, "init", "-q")
    first = commit(checkout, "a")
    checkout.sweep("more", "model: {value: qwen3b}\nreward: {value: ap50}")
    checkout.pretend("pair", "more", commit=first)
    words = checkout.cells("pair")[1].words
    for name, own in (("by hand/one", words), ("by hand/two", checkout.cells("more")[0].words)):
        command = ["python3", "train.py", *own, f"paths.output_dir={name}"]
        assert subprocess.run(command, cwd=checkout.root, check=False).returncode == 0
    unfinished = checkout.root / "by hand" / "three"
    unfinished.mkdir()
    (unfinished / "config.yaml").write_text("seed: 0\n")
    place = str(checkout.root / "by hand")
    options = ["--id", "pair", "--scale", "tiny"]
    assert collect.main([*options, place], layout=checkout.layout) == 0
    (row,) = checkout.rows("pair")
    assert row.axes == {"reward": "odlength"}
    assert row.words == words
    assert row.claims_commit == first
    out = capsys.readouterr().out
    assert "1 results added to experiments/pair/results.jsonl; 1 runs belong to no cell of it" in out
    assert collect.main([*options, place], layout=checkout.layout) == 0
    assert "0 results added" in capsys.readouterr().out
    assert run.main(["pair", "--scale", "tiny"], layout=checkout.layout) == 0
    assert len(checkout.starts()) == 3  # two by hand, and the cell that had no result
    assert collect.main([*options, str(checkout.root / "nowhere")], layout=checkout.layout) == 2
    assert "there is no folder" in capsys.readouterr().err


def test_cells_that_cannot_be_tested_are_said(checkout: Checkout, capsys: pytest.CaptureFixture[str]) -> None:
    checkout.sweep("s", "model: {values: [qwen3b, qwen7b]}\nreward: {value: ap}")
    assert run.main(["s", "--scale", "tiny", "--dry-run"], layout=checkout.layout) == 0
    ran, not_testable = capsys.readouterr().out.splitlines()
    cell = checkout.cells("s")[0]
    folder = f"paths.output_dir=outputs/sweeps/s/tiny/{cell.folder_name}"
    assert ran == f"python train.py reward=ap model=tiny eval.samples=4 seed=0 {folder}"
    assert not_testable == "# not testable: model=qwen7b seed 0: model=qwen7b: no tiny model is that large"
    assert checkout.starts() == []


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (["piar", "--scale", "tiny"], "ID: no such sweep, got 'piar'; did you mean pair? sweeps: pair"),
        (["pair", "--scale", "tny"], "SCALE: no such scale, got 'tny'; did you mean tiny? scales: tiny"),
        (["pair", "--scale", "tiny", "--jobs", "0"], "JOBS: must be >= 1, got 0"),
        (["pair", "--scale", "tiny", "--launcher", "slurm"], "LAUNCHER: no such launcher, got 'slurm'"),
        (["pair", "--scale", "tiny", "eval.samples=9"], "eval.samples: would change the cells of the sweep"),
        (
            ["pair", "--scale", "tiny", "hydra.launcher.x=1"],
            "hydra.launcher.x=1: would be ignored; add --launch",
        ),
    ],
)
def test_wrong_words_are_refused_in_one_line(
    checkout: Checkout, capsys: pytest.CaptureFixture[str], argv: list[str], said: str
) -> None:
    assert run.main(argv, layout=checkout.layout) == 2
    err = capsys.readouterr().err
    assert said in err
    assert err.count("\n") == 1


def test_a_cell_that_cannot_start_refuses_the_sweep_before_the_first_run(
    checkout: Checkout, capsys: pytest.CaptureFixture[str]
) -> None:
    checkout.sweep(
        "s", "model: {value: qwen3b}\nreward: {value: ap}\neval.metric: {values: [greedy/ap, greedy/x]}"
    )
    assert run.main(["s", "--scale", "tiny"], layout=checkout.layout) == 2
    assert (
        "cell eval.metric=greedy/x seed 0: eval.metric: is not measured in this run"
        in capsys.readouterr().err
    )
    assert not (checkout.root / "outputs" / "sweeps" / "s" / "tiny").exists()


def test_submitit_has_a_folder_for_each_cell(checkout: Checkout) -> None:
    cell = checkout.cells("pair")[0]
    folder = CellFolder(path=checkout.layout.runs("pair", "tiny") / cell.folder_name)
    more = ["hydra.launcher.partition=gpu"]
    words = command(cell, folder, checkout.root, LauncherName.submitit, more)
    place = f"outputs/sweeps/pair/tiny/{cell.folder_name}"
    assert words[:5] == [
        "train.py", "-m", "hydra/launcher=submitit_slurm", f"hydra.sweep.dir={place}", more[0],
    ]  # fmt: skip
    assert words[5:] == [*cell.words, f"paths.root={place}"]
    assert dict(parted(word) for word in words[5:])["paths.root"] == place


def test_without_submitit_it_is_said_what_to_install(
    checkout: Checkout, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    checkout.pretend("pair")
    assert run.main(["pair", "--scale", "tiny", "--launcher", "submitit"], layout=checkout.layout) == 2
    err = capsys.readouterr().err
    assert "LAUNCHER: Hydra's submitit launcher is not installed, got 'submitit'" in err
    assert 'pip install "groundrl[slurm]"' in err
