"""Whole runs through the command line: what they leave behind, and that nothing is lost when they stop."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from scripts.kill_test import outcome
from tests.unit.tracking.wandb_file import offline_files

from groundrl.errors import ConfigError
from groundrl.reporting.replay import replay
from groundrl.reporting.runs import list_runs
from groundrl.training.rescore import rescore
from groundrl.training.run_folder import RunFolder

ROOT = Path(__file__).resolve().parents[2]
WORDS = ("debug=smoke",)


def call(*words: str, cwd: Path = ROOT) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(ROOT / "train.py"), *words]
    return subprocess.run(command, capture_output=True, text=True, cwd=cwd, timeout=300)


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """A run that nobody disturbed, and what it printed."""
    folder = tmp_path_factory.mktemp("run") / "alone"
    done = call(*WORDS, f"paths.output_dir={folder}")
    assert done.returncode == 0, done.stderr
    return folder, done.stdout


def lines(folder: Path, name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / name).read_text("utf-8").splitlines()]


def test_run_folder_holds_what_the_readme_promises(finished: tuple[Path, str]) -> None:
    folder, printed = finished
    result = json.loads((folder / "result.json").read_text("utf-8"))
    assert result["status"] == "finished"
    assert result["steps"] == 4
    for moment in ("before", "after", "difference"):
        for name in ("greedy/iou", "greedy/acc50", "sampled/iou", "greedy/format"):
            metric = result["eval"][moment][name]
            assert metric["low"] <= metric["value"] <= metric["high"]
    assert result["eval"]["before"]["greedy/iou"]["value"] > 0.1
    assert len(result["run"]["model_sha256"]) == 64
    assert len(lines(folder, "rollouts.jsonl")) == 4 * 2 * 4
    assert (folder / "report.html").stat().st_size > 20_000
    assert "python train.py reward=odlength" in printed
    assert str(folder) in printed
    assert sorted(p.name for p in (folder / "checkpoints").iterdir()) == ["step-000002", "step-000004"]


def test_stored_answers_are_judged_again_without_the_model(finished: tuple[Path, str]) -> None:
    folder, _ = finished
    before = {file: file.read_bytes() for file in (folder / "eval").iterdir()}
    again = parse(rescore(folder, []))
    measured = json.loads((folder / "result.json").read_text("utf-8"))["eval"]
    for moment in ("before", "after"):
        for name, metric in measured[moment].items():
            assert again[moment][name] == pytest.approx(metric["value"], abs=1e-4), name
    other = parse(rescore(folder, ["reward=giou"]))
    assert other["after"]["greedy/iou"] == again["after"]["greedy/iou"]
    assert "greedy/reward/giou" in other["after"]
    assert "greedy/reward/iou" not in other["after"]
    assert {file: file.read_bytes() for file in (folder / "eval").iterdir()} == before
    with pytest.raises(ConfigError, match="would not change what was answered"):
        rescore(folder, ["dataset.seed=3"])
    with pytest.raises(ConfigError, match="is for task ovd, but the run answered rec"):
        rescore(folder, ["reward=f1"])


def test_a_run_can_be_compared_with_today_and_is_listed(finished: tuple[Path, str]) -> None:
    folder, _ = finished
    found = replay(folder)
    assert (found.drifted, found.notes) == (False, [])
    (line,) = list_runs(folder)
    assert (line.status, line.step, line.steps, line.metric) == ("finished", 4, 4, "greedy/iou")
    result = json.loads((folder / "result.json").read_text("utf-8"))
    assert line.value == result["eval"]["after"]["greedy/iou"]["value"]
    assert result["run"]["commit"].endswith("+changes") == (folder / "changes.patch").exists()


def parse(printed: list[str]) -> dict[str, dict[str, float]]:
    """The values that `rescore` prints, by evaluation and name."""
    found: dict[str, dict[str, float]] = {}
    for line in printed:
        if not line.startswith(" "):
            own = found.setdefault(Path(line.split(":")[0]).stem, {})
        else:
            name, value, *_ = line.split()
            own[name] = float(value)
    return found


def test_a_stored_total_can_be_explained(finished: tuple[Path, str]) -> None:
    for row in lines(finished[0], "rollouts.jsonl"):
        explained = sum(term["value"] * term["weight"] for term in row["terms"].values())
        assert row["total"] == pytest.approx(explained, abs=1e-12)
        assert set(row["terms"]) == {"iou", "format"}


def test_stages_add_up_to_the_step(finished: tuple[Path, str]) -> None:
    train = [line["metrics"] for line in lines(finished[0], "metrics.jsonl") if line["kind"] == "train"]
    assert len(train) == 4
    stages = sum(v for m in train for k, v in m.items() if k.startswith("time/") and k != "time/step")
    whole = sum(m["time/step"] for m in train)
    assert 0.95 * whole <= stages <= whole


def test_engine_and_learner_agree_in_a_real_run(finished: tuple[Path, str]) -> None:
    train = [line["metrics"] for line in lines(finished[0], "metrics.jsonl") if line["kind"] == "train"]
    assert max(m["learner/mismatch_max"] for m in train) < 1e-4


def test_best_checkpoint_is_a_hugging_face_folder(finished: tuple[Path, str], tmp_path: Path) -> None:
    """Moved elsewhere it loads, and scores on the same samples what it was kept for."""
    moved = tmp_path / "moved"
    shutil.copytree(finished[0] / "best", moved)
    words = ("debug=smoke", "algorithm=eval_only", f"model.path={moved}", "eval.samples=4")
    done = call(*words, f"paths.output_dir={tmp_path / 'eval'}")
    assert done.returncode == 0, done.stderr
    result = json.loads((tmp_path / "eval" / "result.json").read_text("utf-8"))
    best = json.loads((finished[0] / "result.json").read_text("utf-8"))["best"]
    assert best["metric"] == "greedy/iou"
    assert result["eval"]["before"]["greedy/iou"]["value"] == pytest.approx(best["value"], abs=1e-9)
    assert "after" not in result["eval"]


def test_sigterm_saves_and_the_printed_command_continues(finished: tuple[Path, str], tmp_path: Path) -> None:
    words = [*WORDS, "reward=iou", "seed=0", f"paths.root={tmp_path}"]
    command = [sys.executable, str(ROOT / "train.py"), *words]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT)
    assert process.stdout is not None
    for line in process.stdout:
        if line.startswith("step"):
            process.send_signal(signal.SIGTERM)
            break
    with process.stdout as rest:
        printed = rest.read()
    assert process.wait(timeout=120) == 128 + signal.SIGTERM
    (folder,) = (tmp_path / "main").iterdir()
    assert folder.name.startswith("debug=smoke,reward=iou-s0-")
    continuing = printed.split("go on with: python train.py ")[1].split("\n")[0]
    assert continuing == f"resume={folder}"
    stopped = json.loads((folder / "result.json").read_text("utf-8"))
    assert stopped["status"] == "interrupted"
    assert stopped["eval"]["before"]["greedy/iou"]["value"] > 0.1
    done = call(*shlex.split(continuing))
    assert done.returncode == 0, done.stderr
    assert "resumed from step-00000" in done.stdout
    assert outcome(folder) == outcome(finished[0])


def test_corrupt_checkpoint_is_named_and_the_one_before_used(
    finished: tuple[Path, str], tmp_path: Path
) -> None:
    folder = tmp_path / "corrupt"
    shutil.copytree(finished[0], folder)
    weights = folder / "checkpoints" / "step-000004" / "model" / "model.safetensors"
    raw = bytearray(weights.read_bytes())
    raw[-100] ^= 1
    weights.write_bytes(raw)
    done = call(f"resume={folder}")
    assert done.returncode == 0, done.stderr
    assert "step-000004 cannot be used (model/model.safetensors does not match the manifest)" in done.stdout
    assert "resumed from step-000002" in done.stdout
    assert outcome(folder) == outcome(finished[0])


def test_two_runs_cannot_share_a_folder(finished: tuple[Path, str], tmp_path: Path) -> None:
    folder = tmp_path / "shared"
    shutil.copytree(finished[0], folder)
    holder = RunFolder(folder)
    try:
        second = call(f"resume={folder}")
    finally:
        holder.close()
    assert second.returncode == 2
    assert f"{folder} is in use by process {os.getpid()}" in second.stderr
    assert "Traceback" not in second.stderr


def test_full_disk_is_one_line_and_the_run_goes_on_later(finished: tuple[Path, str], tmp_path: Path) -> None:
    folder = tmp_path / "full"
    words = " ".join([*WORDS, f"paths.output_dir={folder}"])
    limited = f"ulimit -f 600; exec {sys.executable} {ROOT / 'train.py'} {words}"
    done = subprocess.run(["bash", "-c", limited], capture_output=True, text=True, cwd=ROOT, timeout=300)
    assert done.returncode == 2, done.stdout + done.stderr
    assert "cannot write" in done.stderr
    assert "Traceback" not in done.stderr
    again = call(f"resume={folder}")
    assert again.returncode == 0, again.stderr
    assert outcome(folder) == outcome(finished[0])


@pytest.mark.parametrize(
    "words",
    [
        ("reward=odlength", "tracker=wandb", "tracker.mode=offline"),
        ("reward=ap", "algorithm/kl=k3", "algorithm.num_iterations=2", "algorithm.mini_batches=2"),
        ("algorithm=sft",),
        ("model.lora.rank=4", "model.lora.alpha=8", "algorithm/kl=k3"),
        ("rollout.temperature=0.7", "rollout.top_k=50", "algorithm.loss.normalisation=constant"),
        ("tracker=tensorboard", "model.freeze_vision=true"),
    ],
    ids=" ".join,
)
def test_other_words_run_to_the_end(words: tuple[str, ...], tmp_path: Path) -> None:
    done = call("debug=smoke", *words, f"paths.output_dir={tmp_path / 'run'}")
    assert done.returncode == 0, done.stderr
    train = [x["metrics"] for x in lines(tmp_path / "run", "metrics.jsonl") if x["kind"] == "train"]
    assert len(train) == 4
    assert all(m["learner/grad_norm"] >= 0 and m["learner/skipped"] == 0 for m in train)
    if "tracker=wandb" in words:
        (record,) = offline_files(tmp_path / "run")
        result = json.loads((tmp_path / "run" / "result.json").read_text("utf-8"))
        assert record.series("reward/total") == [(n + 1, m["reward/total"]) for n, m in enumerate(train)]
        assert [step for step, _ in record.series("answers/eval/nrows")] == [0, 2, 4]
        assert record.summary["after/greedy/ap"] == result["eval"]["after"]["greedy/ap"]["value"]
        assert (record.summary["status"], record.summary["steps"]) == ("finished", 4)
        assert all(table["data"] for table in record.tables())
    if "algorithm/kl=k3" in words:
        assert train[-1]["learner/kl_ref"] >= 0
    if "algorithm=sft" in words:
        assert train[-1]["learner/nll"] < train[0]["learner/nll"]
