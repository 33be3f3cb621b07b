"""What a user sees who writes something wrong: one line that names the key, what is wrong and what to do,
exit code 2, no traceback, nothing on disk."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from tests.cli import Cli, make_cli

from groundrl.config.invocation import Invocation
from groundrl.run_config import RunConfig
from groundrl.training.ready import check_ready
from groundrl.training.run import run

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def cli(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Cli:
    """The command line, in an empty folder."""
    monkeypatch.chdir(tmp_path)
    return make_cli(monkeypatch, capsys)


def wrong_words() -> dict[str, str]:
    """Words -> the line they print, from the file beside this one."""
    text = Path(__file__).with_name("wrong_words.txt").read_text("utf-8")
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    assert all(line.startswith("    ") for line in lines[1::2])
    return dict(zip(lines[::2], (line.strip() for line in lines[1::2]), strict=True))


REFUSED = wrong_words()


def start(config: RunConfig, invocation: Invocation) -> int:
    return run(config, invocation).code


@pytest.mark.parametrize("words", REFUSED, ids=str)
def test_a_wrong_word_is_one_line(words: str, cli: Cli, tmp_path: Path) -> None:
    done = cli(*words.split(" | "), job=start)
    expected = ".*".join(re.escape(part) for part in REFUSED[words].split("*"))
    assert re.fullmatch(expected, done.error)
    assert list(tmp_path.iterdir()) == []


def test_missing_weights_on_a_machine_without_a_gpu(cli: Cli) -> None:
    if torch.cuda.is_available():
        pytest.skip("this machine has a CUDA device")
    assert "(this machine also has no CUDA device)" in cli("model=qwen7b", job=start).error
    assert cli("model.device=cuda", job=start).error == (
        "model.device: no CUDA device was found, got 'cuda'; use model.device=cpu"
    )
    assert cli("model.attention=flash_attention_2", job=start).error.startswith(
        "model.attention: flash attention needs a CUDA device"
    )


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (None, "the checkpoint folder lacks config.json, "),
        ("no template", "the checkpoint folder lacks chat_template.jinja"),
        ("{broken", "config.json is no model's configuration"),
        ("[]", "config.json is no model's configuration"),
        ('{"model_type": "gpt2"}', "model_type 'gpt2' is not a known family; known: internvl, qwen2_5_vl"),
    ],
)
def test_a_folder_that_is_no_checkpoint(cli: Cli, tmp_path: Path, text: str | None, problem: str) -> None:
    folder = tmp_path / "weights"
    folder.mkdir()
    if text is not None:
        names = ["tokenizer.json", "preprocessor_config.json", "a.safetensors", "chat_template.jinja"]
        if text == "no template":
            names.remove("chat_template.jinja")
        for name in names:
            (folder / name).write_text("")
        (folder / "config.json").write_text(text)
    assert problem in cli(f"model.path={folder}", job=start).error
    assert [path.name for path in tmp_path.iterdir()] == ["weights"]


@pytest.mark.parametrize("key", ["paths.root", "paths.output_dir"])
def test_a_folder_that_cannot_be_written(cli: Cli, tmp_path: Path, key: str) -> None:
    (tmp_path / "file").write_text("")
    expected = (
        f"{key}: cannot write to 'file/below' ({tmp_path}/file is not a folder); choose another {key}=FOLDER"
    )
    assert cli(f"{key}=file/below", job=start).error == expected
    if key == "paths.root":
        sweep = cli("-m", "seed=0,1", "paths.root=file/below", job=start, ready=check_ready)
        assert sweep.error == f"job 1 of 2 (seed=0 paths.root=file/below): {expected}"
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_a_folder_that_holds_a_run(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "config.yaml").write_text("seed: 0\n")
    error = cli("paths.output_dir=run", job=start).error
    assert error.startswith(
        "paths.output_dir: 'run' already holds a run; go on with it by resume=run, or choose"
    )
    assert [path.name for path in (tmp_path / "run").iterdir()] == ["config.yaml"]
    assert (tmp_path / "run" / "config.yaml").read_text() == "seed: 0\n"
    assert "holds no overrides.yaml, so it is no run folder" in cli("resume=run", job=start).error


def test_plan_needs_no_weights_and_writes_nothing(cli: Cli, tmp_path: Path) -> None:
    done = cli("debug=plan", "reward=odlength", "model=qwen7b", job=start)
    assert done.code == 0, done.err
    assert "8,292,166,656" in done.out
    assert "fits into 80 GiB" in done.out
    assert list(tmp_path.iterdir()) == []


def test_help_lists_the_groups_and_nothing_internal(cli: Cli, tmp_path: Path) -> None:
    done = cli("--help", "algorithm=sft")
    assert (done.code, done.err, done.jobs) == (0, "", [])
    lines = done.out.splitlines()
    options = "cispo, dapo, dr_grpo, eval_only, grpo, grpo_no_kl, gspo, rloo, sft*, sft_matched"
    assert f"  algorithm            {options}" in lines
    assert any(line.startswith("  reward/term          all_match, ap, ap50, ap_strict,") for line in lines)
    start = next(number for number, line in enumerate(lines) if line.startswith("  model "))
    models = " ".join(lines[start : start + 3]).replace(",", " ").split()
    assert {"qwen7b", "tiny*"} <= set(models)
    assert "python train.py -m reward=ap50,ap,odlength seed=0,1,2" in done.out
    assert "schema" not in done.out
    assert "hydra:" not in done.out
    assert max(map(len, lines)) < 120
    settings = lines[lines.index("Settings, changed with KEY=VALUE:") + 1 :]
    assert "    batch_size: ${scale.${task.recipe}.sft_batch}" in settings
    assert cli("--help", "algorithm=sftt").error.startswith(
        "algorithm: no such option, got 'sftt'; did you mean sft?"
    )
    assert list(tmp_path.iterdir()) == []


def call(*words: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    """The real program."""
    command = [sys.executable, str(ROOT / "train.py"), *words]
    own = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    return subprocess.run(command, capture_output=True, text=True, cwd=cwd, timeout=300, env=own, check=False)


def test_the_program_itself_from_another_folder(tmp_path: Path) -> None:
    wrong = call("reward=odlenght", cwd=tmp_path)
    assert (wrong.returncode, wrong.stdout) == (2, "")
    start, star, _ = REFUSED["reward=odlenght"].partition("*")
    assert star
    assert wrong.stderr.startswith(f"error: {start}")
    assert wrong.stderr.count("\n") == 1
    plan = call("debug=plan", cwd=tmp_path)
    assert (plan.returncode, plan.stderr) == (0, "")
    assert "783,296" in plan.stdout
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_a_sweep_runs_its_jobs_one_after_the_other_in_one_process(tmp_path: Path) -> None:
    words = ("debug=smoke", "algorithm.num_steps=1", "seed=0,1", "eval.samples=2", "eval.every_samples=2")
    done = call("-m", *words, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    runs = sorted((tmp_path / "outputs" / "main").iterdir())
    assert [re.sub(r"-[0-9a-f]{8}$", "", path.name)[-3:] for path in runs] == ["-s0", "-s1"]
    results = [json.loads((path / "result.json").read_text("utf-8")) for path in runs]
    assert [result["status"] for result in results] == ["finished", "finished"]
    assert [result["run"]["seed"] for result in results] == [0, 1]
    assert len({(path / "run.lock").read_text() for path in runs}) == 1  # the process that ran both
    first, second = (result["run"]["finished_at"] for result in results)
    assert first <= second
    assert all((path / "report.html").is_file() for path in runs)
    assert done.stdout.index("== job 1 of 2: ") < done.stdout.index("== job 2 of 2: ")
    assert [path.name for path in tmp_path.iterdir()] == ["outputs"]
