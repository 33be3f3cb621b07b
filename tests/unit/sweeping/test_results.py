"""Frozen results: added once, whole, by one writer at a time; and how a run folder becomes one."""

from __future__ import annotations

import json
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import pytest
import yaml

from groundrl.errors import DataError
from groundrl.sweeping.cells import Cell
from groundrl.sweeping.collecting import row_of, thinned
from groundrl.sweeping.key import config_key
from groundrl.sweeping.results import ResultRow, append_result, read_results

CONFIG: dict[str, Any] = {"seed": 2, "eval": {"samples": 512}, "algorithm": {"lr": 1e-06, "num_steps": 2}}


def row(seed: int = 0, **changes: Any) -> ResultRow:
    made = ResultRow(
        key=f"{seed:016x}", id="x", scale="tiny", axes={"reward": "ap"}, twins={"model": ("qwen3b", "tiny")},
        seed=seed, words=("reward=ap",), commit="c", claims_commit=None, finished_at="", versions={},
        machine={}, data={}, start=None, steps=2, train_seconds=1.0, samples={"heldout": 4},
        before={"greedy/ap": {"value": 0.5, "low": None, "high": None}}, after={},
        curves={"reward/total": [(1, 0.5)]},
    )  # fmt: skip
    return replace(made, **changes)


def test_rows_come_back_equal(tmp_path: Path) -> None:
    file = tmp_path / "new" / "results.jsonl"
    assert read_results(file) == []
    rows = [row(0), row(1), row(0, axes={"reward": "ap50"})]
    assert [append_result(file, one) for one in rows] == [True] * 3
    assert not append_result(file, row(1, steps=7))  # its place is taken
    assert read_results(file) == rows
    assert rows[0].measured == rows[0].before


def test_a_line_cut_off_by_a_crash_is_replaced(tmp_path: Path) -> None:
    file = tmp_path / "results.jsonl"
    append_result(file, row(0))
    whole = file.read_bytes()
    append_result(file, row(1))
    file.write_bytes(file.read_bytes()[:-40])
    assert read_results(file) == [row(0)]
    append_result(file, row(2))
    assert file.read_bytes().startswith(whole)
    assert read_results(file) == [row(0), row(2)]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda line: "{", "row 1: is no JSON"),
        (lambda line: "[1]", "row 1: is no result: keys missing or unknown: all"),
        (lambda line: line.replace('"seed":', '"sead":'), "keys missing or unknown: sead, seed"),
        (lambda line: line.replace('"seed":0', '"seed":"0"'), "row 1: seed is of the wrong kind: '0'"),
    ],
)
def test_a_damaged_line_is_refused(tmp_path: Path, change: Any, said: str) -> None:
    file = tmp_path / "results.jsonl"
    append_result(file, row(0))
    file.write_text(change(file.read_text().rstrip("\n")) + "\n")
    with pytest.raises(DataError, match=said.replace("(", r"\(")):
        read_results(file)


def _write(file: Path, start: int) -> None:
    for seed in range(start, start + 20):
        append_result(file, row(seed))


def test_several_writers_lose_nothing(tmp_path: Path) -> None:
    file = tmp_path / "results.jsonl"
    context = get_context("fork")
    writers = [context.Process(target=_write, args=(file, start)) for start in (0, 10, 20)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    assert sorted(one.seed for one in read_results(file)) == list(range(40))


def test_thinning_keeps_the_ends_and_is_even() -> None:
    """5 of 9 points: numbers 0, 2, 4, 6, 8. 4 of 9: 0, 8/3, 16/3, 8, rounded 0, 3, 5, 8."""
    points = [(step, step / 10) for step in range(9)]
    assert [step for step, _ in thinned(points, 5)] == [0, 2, 4, 6, 8]
    assert [step for step, _ in thinned(points, 4)] == [0, 3, 5, 8]
    assert thinned(points, 9) == points
    assert len(thinned([(step, 0.0) for step in range(1000)])) == 120


def folder(tmp_path: Path, **changes: Any) -> Path:
    tmp_path.mkdir(parents=True, exist_ok=True)

    def of(value: float) -> dict[str, float]:
        return {"value": value, "low": value - 1 / 3, "high": value + 1 / 3}

    evals = {
        "before": {"greedy/ap": of(0.25), "greedy/parse/ok_frac": of(1.0)},
        "after": {"greedy/ap": of(2 / 3)},
        "benchmarks": {
            "coco_all": {
                "before": {"greedy/ap": of(0.125), "greedy/parse/ok_frac": of(1.0)},
                "after": {"greedy/ap": of(0.1875), "greedy/monitor/long_frac": of(0.0)},
                "samples": 1024,
                "fingerprint": "f3",
            }
        },
    }
    facts = {
        "commit": "abc", "finished_at": "now", "versions": "python 3.11.7, torch 2.13.0+cpu",
        "device": "cpu (x), 1 threads", "train_fingerprint": "f1", "heldout_fingerprint": "f2",
        "start_fingerprint": "sha256:9",
    }  # fmt: skip
    result = {"status": "finished", "steps": 2, "train_seconds": 3.25, "eval": evals, "run": facts}
    (tmp_path / "result.json").write_text(json.dumps(result | changes))
    (tmp_path / "config.yaml").write_text(yaml.safe_dump(CONFIG | {"paths": {"root": "elsewhere"}}))
    lines = [
        {"step": 1, "kind": "train", "metrics": {"reward/total": 0.5, "time/step": 1.0, "perf/m": 9.0}},
        {"step": 1, "kind": "train", "metrics": {"reward/total": 0.75, "group/zero_spread_ap_frac": 1.0}},
        {"step": 2, "kind": "train", "metrics": {"reward/total": None, "learner/loss": 1.23456789e-7}},
        {"step": 2, "kind": "eval", "metrics": {"greedy/ap": of(2 / 3), "coco_all/ap": of(0.1875),
                                                "coco_all/monitor/long_frac": of(0.0)}},
    ]  # fmt: skip
    (tmp_path / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    (tmp_path / "eval").mkdir(exist_ok=True)
    answers = [("greedy", "a"), ("sampled", "a"), ("greedy", "b")]
    text = "".join(json.dumps({"kind": kind, "sample_id": name}) + "\n" for kind, name in answers)
    (tmp_path / "eval" / "before.jsonl").write_text(text)
    return tmp_path


CELL = Cell(
    id="x", scale="tiny", axes={"reward": "ap"}, seed=2, words=("reward=ap", "seed=2"), key=config_key(CONFIG)
)


def test_a_run_folder_becomes_a_row(tmp_path: Path) -> None:
    """Numbers have six significant digits: 2/3 is 0.666667; 2/3 - 1/3 = 0.333333; 0.25 - 1/3 = -0.0833333."""
    made = row_of(folder(tmp_path), CELL, "claims")
    assert made == ResultRow(
        key=config_key(CONFIG),
        id="x",
        scale="tiny",
        axes={"reward": "ap"},
        twins={},
        seed=2,
        words=("reward=ap", "seed=2"),
        commit="abc",
        claims_commit="claims",
        finished_at="now",
        versions={"python": "3.11.7", "torch": "2.13.0+cpu"},
        machine={"device": "cpu (x), 1 threads"},
        data={"train": "f1", "heldout": "f2", "coco_all": "f3"},
        start="sha256:9",
        steps=2,
        train_seconds=3.25,
        samples={"heldout": 2, "coco_all": 1024},
        before={
            "greedy/ap": {"value": 0.25, "low": -0.0833333, "high": 0.583333},
            "greedy/parse/ok_frac": {"value": 1.0, "low": 0.666667, "high": 1.33333},
            "coco_all/ap": {"value": 0.125, "low": -0.208333, "high": 0.458333},
        },
        after={
            "greedy/ap": {"value": 0.666667, "low": 0.333333, "high": 1.0},
            "coco_all/ap": {"value": 0.1875, "low": -0.145833, "high": 0.520833},
        },
        curves={
            "coco_all/ap": [(2, 0.1875)],
            "greedy/ap": [(2, 0.666667)],
            "learner/loss": [(2, 1.23457e-07)],
            "reward/total": [(1, 0.75)],
        },
    )


def test_an_unfinished_or_foreign_run_is_no_result(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="is no finished run; go on with: "):
        row_of(folder(tmp_path / "a", status="interrupted"), CELL, None)
    with pytest.raises(DataError, match=r"has other settings \(key"):
        row_of(folder(tmp_path / "b"), replace(CELL, key="0" * 16), None)
    with pytest.raises(DataError, match="is no finished run"):
        row_of(tmp_path / "nothing", CELL, None)
