"""Runs of two processes: the numbers of one, whatever the batches hold, and no process left behind."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from PIL import Image
from safetensors.torch import load_file

ROOT = Path(__file__).resolve().parents[2]
WORDS = ("debug=smoke", "reward=odlength")
pytestmark = pytest.mark.slow


def command(*words: str, processes: int = 2) -> list[str]:
    launcher = [] if processes == 1 else ["-m", "torch.distributed.run", "--nproc-per-node", str(processes)]
    port = ["--master-port", "0", "--rdzv-backend", "c10d", "--rdzv-endpoint", "localhost:0"]
    return [sys.executable, *launcher, *(port if launcher else []), str(ROOT / "train.py"), *words]


def run(*words: str, processes: int = 2) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        command(*words, processes=processes), capture_output=True, text=True, cwd=ROOT, timeout=240
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    return done


def steps(folder: Path) -> list[dict[str, float]]:
    records = [json.loads(line) for line in (folder / "metrics.jsonl").read_text("utf-8").splitlines()]
    return [one["metrics"] for one in records if one["kind"] == "train"]


def furthest(one: Path, other: Path) -> float:
    """The largest difference between the weights of two model folders."""
    first, second = (load_file(folder / "model.safetensors") for folder in (one, other))
    assert first.keys() == second.keys()
    return max(float((first[name] - second[name]).abs().max()) for name in first)


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The same run by one process and by two."""
    folder = tmp_path_factory.mktemp("processes")
    run(*WORDS, f"paths.output_dir={folder}/one", processes=1)
    done = run(*WORDS, f"paths.output_dir={folder}/two")
    assert done.stdout.count("finished after 4 steps") == 1  # only the first process speaks
    return folder / "one", folder / "two"


def test_two_processes_give_the_numbers_of_one(pair: tuple[Path, Path]) -> None:
    one, two = pair
    for first, second in zip(steps(one), steps(two), strict=True):
        for name in ("reward/total", "reward/odlength", "length/mean", "learner/grad_norm", "learner/rows"):
            if name in first:
                assert second[name] == pytest.approx(first[name], rel=1e-4), name
        assert second["learner/loss"] == pytest.approx(first["learner/loss"], abs=1e-6)
    assert furthest(one / "checkpoints/step-000004/model", two / "checkpoints/step-000004/model") < 1e-5
    results = [json.loads((folder / "result.json").read_text("utf-8"))["eval"] for folder in pair]
    for moment in ("before", "after"):
        for name, metric in results[0][moment].items():
            assert results[1][moment][name]["value"] == pytest.approx(metric["value"], abs=1e-6), name
    assert (one / "eval/before.jsonl").read_bytes() == (two / "eval/before.jsonl").read_bytes()
    stored = [(folder / "rollouts.jsonl").read_text("utf-8").splitlines() for folder in pair]
    ids = [[json.loads(line)["sample_id"] for line in lines] for lines in stored]
    assert ids[0] == ids[1]


def test_one_process_goes_on_with_the_checkpoint_of_two(pair: tuple[Path, Path], tmp_path: Path) -> None:
    _, two = pair
    folder = tmp_path / "resumed"
    shutil.copytree(two, folder)
    shutil.rmtree(folder / "checkpoints/step-000004")
    (folder / "result.json").unlink()
    shards = sorted((folder / "checkpoints/step-000002/optimizer/parts").iterdir())
    assert len(shards) == 2  # each process wrote what it held
    assert not list(folder.rglob("*.metadata"))  # no pickle
    run(f"resume={folder}", processes=1)
    assert steps(folder) != []
    assert furthest(folder / "checkpoints/step-000004/model", two / "checkpoints/step-000004/model") < 1e-5


def test_two_processes_go_on_with_the_checkpoint_of_one(pair: tuple[Path, Path], tmp_path: Path) -> None:
    one, _ = pair
    folder = tmp_path / "resumed"
    shutil.copytree(one, folder)
    shutil.rmtree(folder / "checkpoints/step-000004")
    (folder / "result.json").unlink()
    run(f"resume={folder}")
    assert furthest(folder / "checkpoints/step-000004/model", one / "checkpoints/step-000004/model") < 1e-5


def test_a_process_without_images_does_not_wait_for_one_with_images(tmp_path: Path) -> None:
    """Each batch is one question with an image and one without, one for each process (B41)."""
    Image.new("RGB", (112, 112), (9, 90, 200)).save(tmp_path / "a.png")
    rows: list[dict[str, Any]] = [
        {"question": "2 + 2?", "answer": 4},
        {"question": "How many?", "answer": 1, "image": "a.png"},
    ]
    file = tmp_path / "rows.jsonl"
    file.write_text("\n".join(json.dumps(row) for row in rows))
    words = ["debug=smoke", "reward=answer", "dataset=qa", f"dataset.path={file}"]
    words += [f"dataset.heldout_path={file}", "algorithm.prompts_per_step=2", "algorithm/kl=k3"]
    words += ["algorithm.mini_batches=2"]  # the second mini-batch of a process may be another's alone
    run(*words, f"paths.output_dir={tmp_path}/one", processes=1)
    run(*words, f"paths.output_dir={tmp_path}/two")
    assert len(steps(tmp_path / "two")) == 4
    first, second = steps(tmp_path / "one")[0], steps(tmp_path / "two")[0]
    assert second["reward/total"] == pytest.approx(first["reward/total"], rel=1e-5)


def test_a_batch_that_cannot_be_shared_out_is_refused(tmp_path: Path) -> None:
    words = ("debug=smoke", "algorithm.prompts_per_step=3", f"paths.output_dir={tmp_path}/run")
    done = subprocess.run(command(*words), capture_output=True, text=True, cwd=ROOT, timeout=240)
    assert done.returncode != 0
    message = "algorithm.prompts_per_step: cannot be shared out among 2 processes, got 3; use a multiple of 2"
    assert message in done.stderr
    assert not (tmp_path / "run").exists()


def test_a_process_that_dies_ends_the_others(tmp_path: Path) -> None:
    """And what was saved before goes on."""
    folder = tmp_path / "run"
    words = (*WORDS, "algorithm.num_steps=400", "checkpoint.every=2", f"paths.output_dir={folder}")
    running = subprocess.Popen(
        command(*words), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=ROOT
    )
    try:
        deadline = time.monotonic() + 120
        while not (folder / "checkpoints" / "step-000002").is_dir():
            assert running.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.2)
        children = subprocess.run(
            ["pgrep", "-P", str(running.pid)], capture_output=True, text=True, check=True
        ).stdout.split()
        workers = [int(pid) for pid in children if "train.py" in Path(f"/proc/{pid}/cmdline").read_text()]
        assert len(workers) == 2
        os.kill(max(workers), signal.SIGKILL)
        out, _ = running.communicate(timeout=90)
    finally:
        running.kill()
    assert running.returncode != 0
    assert "Signal 9 (SIGKILL)" in out
    assert not any(Path(f"/proc/{pid}").exists() for pid in workers)
