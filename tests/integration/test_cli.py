"""What a user sees who writes something wrong: one line that names the key, what is wrong and what to do,
exit code 2, no traceback, nothing on disk."""

from __future__ import annotations

import json
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


REFUSED = {
    "reward=odlenght": "reward: no such option, got 'odlenght'; did you mean odlength? options: ap, ap50, iou, odlength",
    "algorithm/kl=k4": "algorithm/kl: no such option, got 'k4'; did you mean k3? options: auto, k3, none",
    "experiment=nothing": "experiment: no such preset, got 'nothing'; *",
    "algorithm.lr=fast": "algorithm.lr: must be a number, got 'fast'; write algorithm.lr=NUMBER",
    "seed=1.5": "seed: must be a whole number, got '1.5'; write seed=NUMBER",
    "model.freeze_vision=maybe": "model.freeze_vision: must be true or false, got 'maybe'; write model.freeze_vision=true",
    "model.path=null": "model.path: cannot be null, got 'null'; write model.path=VALUE",
    "dataset.objects=3": "dataset.objects: must be a list, got '3'; write dataset.objects=[A,B]",
    "dataset.objects=[1,two]": "dataset.objects[1]: must be a whole number, got '[1,two]'; write dataset.objects=[NUMBER,...]",
    "dataset.styles=3": "dataset.styles: must be a mapping, got '3'; write dataset.styles={NAME: VALUE}",
    "dataset.styles={foo: 1}": "dataset.styles: has no entry foo; entries: attribute, negation, relation, word; "
    "to add it write +dataset.styles.foo=VALUE",
    "+dataset.styles.foo=1": "dataset.styles.foo: must be one of *, got 1.0; *",
    "model.precision=fp32": "model.precision: must be one of FLOAT32, BFLOAT16, got 'fp32'; write model.precision=CHOICE",
    "model.lora=3": "model.lora: is a group of settings, not one value, got '3'; set one of them: model.lora.NAME=VALUE",
    "rollout.temperature=-1": "rollout.temperature: must lie in (0, 10], got -1.0; use e.g. 1.0 (paper: 0.9)",
    "algorithm.group_size=1": "algorithm.group_size: a group of one has no baseline, so every advantage would be 0, "
    "got 1; use at least 2 (paper: 8)",
    "algorithm.lr=nan": "algorithm.lr: must lie in [0, 1), got nan; *",
    "foo=1": "foo: no such setting; settings there: algorithm, checkpoint, *",
    "algorithm.optim.warmup=3": "algorithm.optim.warmup: no such setting; did you mean warmup_steps? settings there: *",
    "algorithm/foo=bar": "algorithm/foo: no such group in this run; groups: algorithm, algorithm/advantage, *",
    "+foo=1": "foo: no such setting; settings there: seed, resume, *",
    "+seed=1": "seed: exists already, got '+seed'; write seed=VALUE without +",
    "+reward=ap": "reward: an option is chosen already, got '+reward'; write reward=OPTION without +",
    "~reward": "reward: a group cannot be left out, got '~reward'; choose one of its options: ap, ap50, iou, odlength",
    "~seed": "seed: cannot be removed; write seed=VALUE",
    "~nothing": "nothing: there is nothing of that name to remove, got '~nothing'; remove the word",
    "reward=null": "reward: needs an option, got 'null'; options: ap, ap50, iou, odlength",
    "reward=ap,iou": "reward: has several values, got 'ap,iou'; add -m for one run per value, or write [a,b] for a list",
    "reward==ap": "reward: the value cannot be read, got '=ap'; write reward=VALUE; *",
    "seed=[1": "seed: the value cannot be read, got '[1'; write seed=VALUE; *",
    "prompt.suffix=it's": "prompt.suffix: the value cannot be read, got \"it's\"; *",
    "algorithm.lr=${nothing}": "algorithm.lr: Interpolation key 'nothing' not found; write algorithm.lr=VALUE",
    "reward.terms.count.weight=1": "reward.terms: has no entry count; entries: format, iou; to add it write "
    "+reward/term@reward.terms.count=OPTION",
    "+reward.terms.count.weight=1": "reward.terms.count: is a new term, got '1'; choose its kind: "
    "+reward/term@reward.terms.count=OPTION",
    "dataset=jsonl": "dataset.path: has no value; write dataset.path=VALUE",
    "eval.metric=greedy/foo": "eval.metric: is not measured in this run, got 'greedy/foo'; choose one of greedy/acc50, "
    "greedy/format, greedy/iou, *",
    "--seed=3": "--seed=3: settings are written without dashes; write seed=3",
    "reward": "reward: has no value; write reward=OPTION; options: ap, ap50, iou, odlength",
    "algorithm=sft|algorithm.group_size=4": "algorithm.group_size: no such setting; settings there: batch_size, lr, *",
    "algorithm=sft|algorithm/kl=k3": "algorithm/kl: would be ignored: algorithm=sft has no kl; remove it",
    "algorithm=sft|+algorithm/kl=k3": "algorithm.kl: would be ignored: the chosen option has no setting kl; remove it",
    "algorithm=eval_only|dataset.train_size=3": "dataset.train_size: would be ignored: algorithm=eval_only does not "
    "train, got '3'; remove it",
    "seed=0|seed=1": "seed: is given twice, got 'seed=0 and seed=1'; keep one of them",
    "resume=does/not/exist": "resume: there is no folder 'does/not/exist'; give the run folder that was printed",
    "resume=x|seed=3": "resume: a resumed run keeps its own settings, so this word would be ignored, got 'seed=3'; *",
    "model=qwen7b": "model.path: the checkpoint folder does not exist*, got 'weights/Qwen2.5-VL-7B-Instruct'; put "
    "config.json, *.safetensors, tokenizer.json and preprocessor_config.json into weights/Qwen2.5-VL-7B-Instruct, *",
    "model.init_from=nowhere": "model.init_from: the checkpoint folder does not exist*, got 'nowhere'; *",
    "+model.references.old=nowhere": "model.references.old: the checkpoint folder does not exist*, got 'nowhere'; *",
    r"model.path=C:\runs\one": r"model.path: the checkpoint folder does not exist*, got 'C:\\runs\\one'; *",
}  # fmt: skip


def start(config: RunConfig, invocation: Invocation) -> int:
    return run(config, invocation).code


@pytest.mark.parametrize("words", REFUSED, ids=lambda words: words.replace("|", " "))
def test_a_wrong_word_is_one_line(words: str, cli: Cli, tmp_path: Path) -> None:
    done = cli(*words.split("|"), job=start)
    expected = ".*".join(re.escape(part) for part in REFUSED[words].split("*"))
    assert re.fullmatch(expected, done.error)
    assert list(tmp_path.iterdir()) == []


def test_missing_weights_on_a_machine_without_a_gpu(cli: Cli) -> None:
    if torch.cuda.is_available():
        pytest.skip("this machine has a CUDA device")
    assert "(this machine also has no CUDA device)" in cli("model=qwen7b", job=start).error
    assert cli("model.device=CUDA", job=start).error == (
        "model.device: no CUDA device was found, got 'cuda'; use model.device=cpu"
    )
    assert cli("model.attention=FLASH2", job=start).error.startswith("model.attention: flash attention needs a CUDA device")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (None, "the checkpoint folder lacks config.json, "),
        ("{broken", "config.json is no model's configuration"),
        ("[]", "config.json is no model's configuration"),
        ('{"model_type": "gpt2"}', "model_type 'gpt2' is not a known family; known: qwen2_5_vl"),
    ],
)
def test_a_folder_that_is_no_checkpoint(cli: Cli, tmp_path: Path, text: str | None, problem: str) -> None:
    folder = tmp_path / "weights"
    folder.mkdir()
    if text is not None:
        for name in ("tokenizer.json", "preprocessor_config.json", "a.safetensors"):
            (folder / name).write_text("")
        (folder / "config.json").write_text(text)
    assert problem in cli(f"model.path={folder}", job=start).error
    assert [path.name for path in tmp_path.iterdir()] == ["weights"]


@pytest.mark.parametrize("key", ["paths.root", "paths.output_dir"])
def test_a_folder_that_cannot_be_written(cli: Cli, tmp_path: Path, key: str) -> None:
    (tmp_path / "file").write_text("")
    expected = f"{key}: cannot write to 'file/below' ({tmp_path}/file is not a folder); choose another {key}=FOLDER"
    assert cli(f"{key}=file/below", job=start).error == expected
    if key == "paths.root":
        sweep = cli("-m", "seed=0,1", "paths.root=file/below", job=start, ready=check_ready)
        assert sweep.error == f"job 1 of 2 (seed=0 paths.root=file/below): {expected}"
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_a_folder_that_holds_a_run(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "config.yaml").write_text("seed: 0\n")
    error = cli("paths.output_dir=run", job=start).error
    assert error.startswith("paths.output_dir: 'run' already holds a run; go on with it by resume=run, or choose")
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
    assert "  algorithm            eval_only, grpo, sft*" in lines
    assert "  reward/term          ap, ap50, format, iou, odlength" in lines
    assert any(line.startswith("  model ") and "qwen7b" in line and "tiny*" in line for line in lines)
    assert "python train.py -m reward=ap50,ap,odlength seed=0,1,2" in done.out
    assert "schema" not in done.out
    assert "hydra:" not in done.out
    assert max(map(len, lines)) < 120
    settings = lines[lines.index("Settings, changed with KEY=VALUE:") + 1 :]
    assert "    batch_size: ${scale.${task.name}.sft_batch}" in settings
    assert cli("--help", "algorithm=sftt").error.startswith("algorithm: no such option, got 'sftt'; did you mean sft?")
    assert list(tmp_path.iterdir()) == []


def call(*words: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    """The real program."""
    command = [sys.executable, str(ROOT / "train.py"), *words]
    return subprocess.run(command, capture_output=True, text=True, cwd=cwd, timeout=300)


def test_the_program_itself_from_another_folder(tmp_path: Path) -> None:
    wrong = call("reward=odlenght", cwd=tmp_path)
    assert (wrong.returncode, wrong.stdout) == (2, "")
    assert wrong.stderr == f"error: {REFUSED['reward=odlenght']}\n"
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
