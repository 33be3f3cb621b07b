"""Audits of a data set, and the data set that is filtered by one."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from groundrl.config.compose import compose_run
from groundrl.data.base import DatasetConfig, Split
from groundrl.data.by_difficulty import read_audit
from groundrl.errors import ConfigError, DataError, NoFileError
from groundrl.training.audit import audit, main

WORDS = ["eval.batch=2", "rollout.max_new_tokens=24"]
RIGHT = {0: 0, 1: 3, 2: 2, 3: 3, 4: 1}


def source(*words: str) -> DatasetConfig:
    return compose_run(["dataset=by_difficulty", *words]).dataset


def write(path: Path, right: dict[int, int] = RIGHT, rollouts: int = 3, **made: object) -> Path:
    data = compose_run([]).dataset.build(Split.TRAIN).fingerprint()
    lines: list[dict[str, object]] = [{"audit": {"data": data, "rollouts": rollouts, **made}}]
    lines += [
        {"index": index, "id": str(index), "right": count, "known": rollouts}
        for index, count in right.items()
    ]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), "utf-8")
    return path


def test_samples_that_are_right_sometimes_are_kept(tmp_path: Path) -> None:
    file = write(tmp_path / "a.jsonl")
    plain = compose_run([]).dataset.build(Split.TRAIN)
    kept = source(f"dataset.file={file}", "dataset.successes=[1, 2]").build(Split.TRAIN)
    assert kept.size == 2
    assert [kept.sample(n).id for n in range(2)] == [plain.sample(n).id for n in (2, 4)]
    assert kept.tasks() == plain.tasks()
    with pytest.raises(DataError, match="index 2 is outside the 2 kept"):
        kept.sample(2)
    all_of = source(f"dataset.file={file}", "dataset.successes=[0, 3]").build(Split.TRAIN)
    assert all_of.size == 5
    assert all_of.fingerprint() != kept.fingerprint() != plain.fingerprint()
    first = source(f"dataset.file={file}", "dataset.successes=[0, 3]", "dataset.train_size=3")
    assert first.build(Split.TRAIN).size == 3


def test_the_held_out_split_is_not_filtered(tmp_path: Path) -> None:
    """It needs no audit, and its numbers compare with those of other runs."""
    plain = compose_run([]).dataset.build(Split.HELDOUT)
    own = source("dataset.file=nowhere.jsonl").build(Split.HELDOUT)
    assert own.fingerprint() == plain.fingerprint()


def test_samples_that_were_not_fully_judged_are_left_out(tmp_path: Path) -> None:
    file = write(tmp_path / "a.jsonl")
    with file.open("a") as lines:
        lines.write('{"index": 9, "id": "9", "right": 1, "known": 2}\n')
        lines.write('{"index": 10, "id": "10", "ri')  # an audit that was stopped
    assert source(f"dataset.file={file}", "dataset.successes=[0, 3]").build(Split.TRAIN).size == 5
    assert read_audit(file).known[9] == 2


def test_what_cannot_be_used_says_why(tmp_path: Path) -> None:
    file = write(tmp_path / "a.jsonl")
    with pytest.raises(NoFileError, match="make audit"):
        source("dataset.file=nowhere.jsonl").build(Split.TRAIN)
    with pytest.raises(ConfigError, match=r"keeps no sample.*right rollouts: 0: 1, 1: 1, 2: 1, 3: 2"):
        source(f"dataset.file={file}", "dataset.successes=[4, 8]").build(Split.TRAIN)
    with pytest.raises(ConfigError, match="audit of other samples"):
        source(f"dataset.file={file}", "dataset.of.seed=4").build(Split.TRAIN)
    with pytest.raises(ConfigError, match="successes: must be"):
        source("dataset.successes=[3, 1]")
    for line, problem in (
        ('{"index": 0, "right": 1}', "row 2: needs whole numbers"),
        ('{"index": 0, "right": 4, "known": 3}', "row 2: holds impossible numbers"),
    ):
        file.write_text(file.read_text("utf-8").splitlines()[0] + f"\n{line}\n")
        with pytest.raises(DataError, match=problem):
            read_audit(file)
    file.write_text('{"index": 0}\n')
    with pytest.raises(DataError, match="row 1: is no audit"):
        read_audit(file)


def test_an_audit_that_was_stopped_goes_on_and_gives_the_same_numbers(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = compose_run(WORDS)
    whole, parts = tmp_path / "whole.jsonl", tmp_path / "parts.jsonl"
    told = audit(whole, config, samples=6, rollouts=2)
    assert told[0].endswith("6 samples, 2 rollouts each")
    audit(parts, config, samples=4, rollouts=2)
    half = parts.read_bytes()
    parts.write_bytes(half[: len(half) - 20])  # killed inside a line
    audit(parts, config, samples=6, rollouts=2)
    assert read_audit(parts) == read_audit(whole)
    counts = read_audit(whole).right
    assert sorted(counts) == [0, 1, 2, 3, 4, 5]
    assert set(counts.values()) <= {0, 1, 2}
    assert len(set(counts.values())) > 1
    capsys.readouterr()
    before = whole.read_bytes()
    audit(whole, config, samples=6, rollouts=2)
    assert capsys.readouterr().err == ""  # nothing is asked again
    assert whole.read_bytes() == before
    kept = source(f"dataset.file={whole}", "dataset.successes=[0, 2]").build(Split.TRAIN)
    assert kept.size == 6
    with pytest.raises(DataError, match="was made with another rollouts"):
        audit(whole, config, samples=6, rollouts=3)
    with pytest.raises(DataError, match="was made with another sampling"):
        audit(whole, compose_run([*WORDS, "rollout.temperature=0.5"]), samples=6, rollouts=2)


def test_mistakes_on_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = str(tmp_path / "a.jsonl")
    assert main([file, "--samples", "0"]) == 2
    assert "--samples: must be at least 1" in capsys.readouterr().err
    assert main([file, "--samples", "4", "reward=odlenght"]) == 2
    assert "odlength" in capsys.readouterr().err
    assert not Path(file).exists()
