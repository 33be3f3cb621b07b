"""`-m` through Hydra's own launcher: which jobs, in which order, and what a failing one does."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from tests.cli import Cli, make_cli

from groundrl.config.invocation import Invocation
from groundrl.errors import ConfigError, NonFiniteError, UserError
from groundrl.run_config import RunConfig


@pytest.fixture
def cli(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Cli:
    monkeypatch.chdir(tmp_path)
    return make_cli(monkeypatch, capsys)


def test_three_rewards_and_three_seeds_are_nine_jobs(cli: Cli, tmp_path: Path) -> None:
    ready: list[RunConfig] = []
    done = cli("reward=ap50,ap,odlength", "seed=0,1,2", "-m", ready=ready.append)  # a flag may stand anywhere
    assert done.code == 0, done.err
    words = [invocation.overrides for _, invocation in done.jobs]
    assert words == [
        (f"reward={reward}", f"seed={seed}") for reward in ("ap50", "ap", "odlength") for seed in (0, 1, 2)
    ]
    for (config, invocation), (reward, seed) in zip(done.jobs, words, strict=True):
        assert config.seed == int(seed.removeprefix("seed="))
        assert set(config.reward.terms) == {reward.removeprefix("reward="), "format"}
        assert str(config.task.name) == "ovd"
        assert invocation.multirun
    names = [invocation.folder_name(config.seed) for config, invocation in done.jobs]
    assert len(set(names)) == 9
    assert names[4].startswith("reward=ap-s1-")
    assert [config for config, _ in done.jobs] == ready
    assert done.out.count("== job ") == 9
    assert "== job 5 of 9: reward=ap seed=1 ==" in done.out
    (record,) = tmp_path.rglob("multirun.yaml")
    assert record.parent.parent == tmp_path / "outputs" / "sweeps"
    assert yaml.safe_load(record.read_text())["hydra"]["mode"] == "MULTIRUN"


def test_one_wrong_job_refuses_the_whole_sweep(cli: Cli, tmp_path: Path) -> None:
    refused = cli("-m", "algorithm.group_size=8,4,1")
    assert refused.error.startswith(
        "job 3 of 3 (algorithm.group_size=1): algorithm.group_size: a group of one has no baseline"
    )
    assert refused.jobs == []
    assert "job 2 of 4 (seed=0 reward=odlenght): reward: no such option, got 'odlenght'; did you mean" in (
        cli("-m", "seed=0,1", "reward=iou,odlenght").error
    )
    assert cli("-m", "seed=0,1", "algorithm.lr=fast").error.startswith(
        "job 1 of 2 (seed=0 algorithm.lr=fast): algorithm.lr: must be a number, got 'fast'"
    )
    assert cli("-m", "seed=0,1", "paths.output_dir=x").error.startswith(
        "job 1 of 2 (seed=0 paths.output_dir=x): paths.output_dir: is one folder"
    )

    def no_weights(config: RunConfig) -> None:
        if config.model.path.startswith("weights/"):
            raise ConfigError("model.path", "the checkpoint folder does not exist")

    assert cli("-m", "model=tiny,qwen7b", ready=no_weights).error == (
        "job 2 of 2 (model=qwen7b): model.path: the checkpoint folder does not exist"
    )
    assert list(tmp_path.iterdir()) == []


def test_a_job_that_fails_is_named_and_only_a_signal_stops_the_others(cli: Cli) -> None:
    def job(config: RunConfig, invocation: Invocation) -> int:
        if config.seed == 0:
            raise NonFiniteError("loss nan")
        if config.seed == 1:
            raise UserError("disk full")
        return 130 if config.seed == 2 else 0

    done = cli("-m", "seed=0,1,2,3", "paths.root=r", job=job)
    assert [config.seed for config, _ in done.jobs] == [0, 1, 2]
    assert done.code == 130
    assert done.err.splitlines() == [
        "error: job 1 of 4 (seed=0 paths.root=r): loss nan",
        "error: job 2 of 4 (seed=1 paths.root=r): disk full",
    ]


def test_the_exit_code_is_the_jobs(cli: Cli) -> None:
    assert cli("seed=3", job=lambda config, invocation: config.seed).code == 3


def test_a_fault_of_the_program_keeps_its_traceback(cli: Cli) -> None:
    def job(config: RunConfig, invocation: Invocation) -> int:
        return 1 // config.seed

    with pytest.raises(ZeroDivisionError):
        cli("seed=0", job=job)
