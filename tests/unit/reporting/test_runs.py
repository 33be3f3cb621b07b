"""The list of runs: status, progress, headline, and nothing left out."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
import yaml

from groundrl.reporting.run_state import read_line
from groundrl.reporting.runs import list_runs, main, table
from groundrl.training.run_folder import RunFolder

NOW = 2_000_000_000.0  # 2033-05-18T03:33:20 UTC
CONFIG = {"algorithm": {"num_steps": 80}, "eval": {"metric": "greedy/iou"}}


def triple(value: float, half: float = 0.05) -> dict[str, float]:
    return {"value": value, "low": value - half, "high": value + half}


def make(
    root: Path,
    name: str,
    *,
    status: str | None = None,
    step: int = 0,
    evals: dict[int, float] | None = None,
    age: float = 0.0,
    finished_at: str = "2033-05-18T03:33:10+0000",
) -> Path:
    folder = root / name
    folder.mkdir(parents=True)
    (folder / "overrides.yaml").write_text("[]")
    (folder / "config.yaml").write_text(yaml.safe_dump(CONFIG))
    lines = [{"step": one, "kind": "train", "metrics": {"reward/total": 0.5}} for one in range(1, step + 1)]
    lines += [
        {"step": one, "kind": "eval", "metrics": {"greedy/iou": triple(value)}}
        for one, value in (evals or {}).items()
    ]
    lines.sort(key=lambda line: int(str(line["step"])))
    (folder / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    if status is not None:
        found: dict[str, Any] = {"before": {"greedy/iou": triple(0.25)}}
        if status == "finished":
            found |= {"after": {"greedy/iou": triple(0.75)}, "difference": {"greedy/iou": triple(0.5)}}
        result = {"status": status, "steps": step, "eval": found, "run": {"finished_at": finished_at}}
        (folder / "result.json").write_text(json.dumps(result))
    for file in folder.iterdir():
        os.utime(file, (NOW - age, NOW - age))
    return folder


def test_a_finished_run(tmp_path: Path) -> None:
    line = read_line(make(tmp_path, "a", status="finished", step=80, age=99), NOW)
    assert (line.status, line.age, line.step, line.steps) == ("finished", 10.0, 80, 80)
    assert (line.metric, line.value, line.difference, line.clear) == ("greedy/iou", 0.75, 0.5, True)
    assert line.note == ""


def test_an_interrupted_run_shows_its_last_evaluation(tmp_path: Path) -> None:
    line = read_line(make(tmp_path, "a", status="interrupted", step=7, evals={0: 0.25, 5: 0.5}), NOW)
    assert (line.status, line.step, line.value, line.difference) == ("interrupted", 7, 0.5, 0.25)
    assert not line.clear  # without a paired interval nothing can be said


def test_running_and_died_differ_by_the_lock(tmp_path: Path) -> None:
    folder = make(tmp_path, "a", step=3, evals={0: 0.25}, age=60)
    died = read_line(folder, NOW)
    assert (died.status, died.age, died.step, died.value, died.difference) == ("died", 60.0, 3, 0.25, None)
    holder = RunFolder(folder)
    try:
        assert read_line(folder, NOW).status == "running"
        assert read_line(folder, NOW).status == "running", "looking does not take the lock away"
    finally:
        holder.close()
    assert read_line(folder, NOW).status == "died"
    RunFolder(folder).close()


def test_a_resumed_run_is_running_whatever_its_old_result_says(tmp_path: Path) -> None:
    folder = make(tmp_path, "a", status="interrupted", step=5, evals={0: 0.25, 8: 0.75})
    holder = RunFolder(folder)
    try:
        line = read_line(folder, NOW)
    finally:
        holder.close()
    assert (line.status, line.step, line.value, line.difference) == ("running", 5, 0.75, 0.5)


def test_a_run_that_is_just_being_made(tmp_path: Path) -> None:
    holder = RunFolder(tmp_path)
    try:
        line = read_line(tmp_path, NOW)
    finally:
        holder.close()
    assert (line.status, line.step, line.note) == ("running", None, "")
    assert read_line(tmp_path, NOW).note == "there is no overrides.yaml"


def test_a_half_written_last_line_is_no_damage(tmp_path: Path) -> None:
    folder = make(tmp_path, "a", step=3)
    with (folder / "metrics.jsonl").open("a") as file:
        file.write('{"step": 4, "ki')
    line = read_line(folder, NOW)
    assert (line.status, line.step, line.note) == ("died", 3, "")
    with (folder / "metrics.jsonl").open("a") as file:
        file.write("\n")
    assert read_line(folder, NOW).note == "metrics.jsonl: 1 lines cannot be read"


@pytest.mark.parametrize(
    ("name", "content", "why"),
    [
        ("config.yaml", None, "there is no config.yaml"),
        ("overrides.yaml", None, "there is no overrides.yaml"),
        ("config.yaml", b"a: [", "config.yaml cannot be read"),
        ("config.yaml", b"", "config.yaml holds no mapping"),
        ("config.yaml", b"\xff\xfe", "config.yaml cannot be read"),
        ("result.json", b'{"status": "fin', "result.json cannot be read"),
        ("result.json", b"[]", "result.json holds no mapping"),
        ("result.json", b'{"status": "great"}', "result.json names no status"),
        ("result.json", b"[" * 100_000, "result.json cannot be read"),
    ],
)
def test_damage_is_named(tmp_path: Path, name: str, content: bytes | None, why: str) -> None:
    make(tmp_path, "good", status="finished", step=1)
    folder = make(tmp_path, "bad", status="finished", step=1)
    if content is None:
        (folder / name).unlink()
    else:
        (folder / name).write_bytes(content)
    lines = {Path(line.folder).name: line for line in list_runs(tmp_path, NOW)}
    assert {key: line.status for key, line in lines.items()} == {"good": "finished", "bad": "damaged"}
    assert lines["bad"].note == why


@pytest.mark.parametrize(
    "result",
    [
        {"status": "finished"},
        {"status": "finished", "steps": "many", "eval": [1], "run": {"finished_at": 5}},
        {"status": "finished", "eval": {"after": {"greedy/iou": "x"}}, "run": None},
    ],
)
def test_odd_results_do_not_crash_the_list(tmp_path: Path, result: dict[str, Any]) -> None:
    folder = make(tmp_path, "a", status="finished", step=2, age=5)
    (folder / "result.json").write_text(json.dumps(result))
    os.utime(folder / "result.json", (NOW, NOW))
    line = read_line(folder, NOW)
    assert (line.status, line.age, line.step, line.value) == ("finished", 0.0, 2, None)


def test_newest_first_wherever_they_lie(tmp_path: Path) -> None:
    make(tmp_path, "main/old", step=1, age=300)
    make(tmp_path, "exp/sub/new", step=1, age=1)
    make(tmp_path, "middle", status="finished", step=1, finished_at="2033-05-18T05:33:00+0200")
    (tmp_path / "tiny-vlm").mkdir()
    (tmp_path / "tiny-vlm" / "model.safetensors").write_text("x")
    (tmp_path / "main" / "old" / "checkpoints").mkdir()
    (tmp_path / "main" / "old" / "checkpoints" / "config.yaml").write_text("inside a run")
    names = [str(Path(line.folder).relative_to(tmp_path)) for line in list_runs(tmp_path, NOW)]
    assert names == ["exp/sub/new", "middle", "main/old"]


def test_links_are_listed_and_a_loop_ends(tmp_path: Path) -> None:
    elsewhere = make(tmp_path / "elsewhere", "a", step=1)
    root = tmp_path / "outputs"
    root.mkdir()
    (root / "linked").symlink_to(elsewhere)
    (root / "loop").symlink_to(root)
    assert [line.folder for line in list_runs(root, NOW)] == [str(root / "linked")]
    assert [line.folder for line in list_runs(elsewhere, NOW)] == [str(elsewhere)]


def test_an_evaluation_without_training(tmp_path: Path) -> None:
    folder = make(tmp_path, "a")
    (folder / "config.yaml").write_text(yaml.safe_dump({"algorithm": {}, "eval": {"metric": "greedy/iou"}}))
    evals = {"benchmarks": {"lisa": {"before": {"greedy/acc75": triple(0.1), "greedy/iou": triple(0.25)}}}}
    (folder / "result.json").write_text(json.dumps({"status": "finished", "steps": 0, "eval": evals}))
    line = read_line(folder, NOW)
    assert (line.step, line.steps, line.metric, line.value, line.difference) == (
        0,
        None,
        "lisa/iou",
        0.25,
        None,
    )


def test_the_table_to_the_letter(tmp_path: Path) -> None:
    make(tmp_path, "a", status="finished", step=80)
    make(tmp_path, "b", step=12, age=7200)
    make(tmp_path, "c", age=8000)
    (tmp_path / "c" / "config.yaml").unlink()
    root = str(tmp_path)
    assert [line.rstrip().replace(root, "R") for line in table(list_runs(tmp_path, NOW))] == [
        "status    age    step   metric      value  difference  folder",
        "finished  10s    80/80  greedy/iou  0.750  +0.500 *    R/a",
        "died      2h00m  12/80  -           -      -           R/b",
        "damaged   2h13m  -/-    -           -      -           R/c",
        "* the interval of the difference excludes 0",
        "damaged: R/c: there is no config.yaml",
    ]


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    make(tmp_path, "a", status="finished", step=80)
    assert main([str(tmp_path), "--json"]) == 0
    (entry,) = json.loads(capsys.readouterr().out)
    assert (entry["status"], entry["steps"], entry["value"]) == ("finished", 80, 0.75)
    (tmp_path / "empty").mkdir()
    assert main([str(tmp_path / "empty")]) == 0
    assert capsys.readouterr().out == f"no runs under {tmp_path / 'empty'}\n"
    assert main([str(tmp_path / "gone")]) == 2
    assert "no such folder" in capsys.readouterr().err
