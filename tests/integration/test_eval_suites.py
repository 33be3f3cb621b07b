"""Benchmarks through the command line: suites, resumed evaluations, training beside them, rescoring."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import train
from scripts.shapes_to_coco import main
from tests.cli import Cli, make_cli

from groundrl.training.rescore import rescore

WORLD = ("dataset.objects=[1,3]", "dataset.seed=5", "dataset.none_fraction=0")
MODES = ("all", "positive", "one_box")


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The shapes world laid out as COCO val2017, and as the color sub-set of OVDEval."""
    folder = tmp_path_factory.mktemp("data")
    assert main([str(folder / "coco"), "--samples", "10", "--heldout", "10", *WORLD]) == 0
    (folder / "coco" / "annotations").mkdir()
    (folder / "coco" / "val2017").mkdir()
    shutil.move(folder / "coco" / "heldout", folder / "coco" / "val2017" / "heldout")
    shutil.copy(
        folder / "coco" / "instances_heldout.json",
        folder / "coco" / "annotations" / "instances_val2017.json",
    )
    content = json.loads((folder / "coco" / "instances_heldout.json").read_text())
    names = {one["id"]: one["name"] for one in content["categories"]}
    for image in content["images"]:
        own = {names[one["category_id"]] for one in content["annotations"] if one["image_id"] == image["id"]}
        image["text"] = sorted(own)
        image["neg_text"] = sorted(set(names.values()) - own)[:2]
    (folder / "ovdeval" / "annotations").mkdir(parents=True)
    (folder / "ovdeval" / "annotations" / "color.json").write_text(json.dumps(content))
    shutil.copytree(folder / "coco" / "val2017", folder / "ovdeval" / "images" / "color")
    return folder


@pytest.fixture
def cli(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Cli:
    return make_cli(monkeypatch, capsys)


def evals(folder: Path) -> dict[str, Any]:
    return json.loads((folder / "result.json").read_text("utf-8"))["eval"]


def run(cli: Cli, *words: str) -> str:
    done = cli(*words, job=train.job, ready=train.ready)
    assert done.code == 0, done.err
    return done.out + done.err


EVALUATE = ("algorithm=eval_only", "model=tiny_ovd", "eval=ovd", "eval.resamples=100", "eval.batch=4")


@pytest.mark.slow
def test_a_suite_is_evaluated_and_goes_on_where_it_was_stopped(root: Path, tmp_path: Path, cli: Cli) -> None:
    words = [*EVALUATE, f"paths.data={root}", "eval.on_missing=skip"]
    printed = run(cli, *words, f"paths.output_dir={tmp_path}/run")
    found = evals(tmp_path / "run")
    assert "before" not in found  # the held-out split of the training data is not evaluated
    assert sorted(found["benchmarks"]) == sorted(
        [f"coco_{name}_{mode}" for name in ("filtered", "pos2", "pos3") for mode in MODES]
        + ["ovdeval_all", "ovdeval_positive"]
    )
    assert list(found["skipped"]) == ["odinw"]
    every = found["benchmarks"]["coco_filtered_all"]
    assert every["samples"] == 10
    assert every["limits"] == {"min_pixels": 3136, "max_pixels": 50176, "max_new_tokens": 128}
    assert every["prompt"] == "own, rewritten wording"  # the run is about referring expressions
    metric = every["before"]["greedy/ap"]
    assert 0 <= metric["low"] <= metric["value"] <= metric["high"] <= 1
    color = found["benchmarks"]["ovdeval_all"]["before"]
    assert 0 <= color["greedy/subset/color/nms_ap"]["value"] <= 1
    assert "greedy/overall" not in color
    assert "coco_pos3_all/ap" in printed

    stopped = tmp_path / "stopped"
    shutil.copytree(tmp_path / "run", stopped)
    (stopped / "result.json").unlink()
    file = stopped / "eval" / "coco_pos2_all" / "before.jsonl"
    lines = file.read_bytes().splitlines(keepends=True)
    file.write_bytes(b"".join(lines[:6]) + lines[6][:40])  # in the second batch of four
    shutil.rmtree(stopped / "eval" / "ovdeval_all")
    run(cli, f"resume={stopped}")
    assert evals(stopped) == found
    assert file.read_bytes().splitlines() == [line.strip() for line in lines]

    again = rescore(tmp_path / "run", [])
    heads = [line for line in again if not line.startswith("  ")]
    assert len(heads) == len(found["benchmarks"])
    start = again.index(next(line for line in heads if "coco_filtered_all" in line)) + 1
    stop = next((n for n, line in enumerate(again[start:], start) if line in heads), len(again))
    shown = dict(line.split()[:2] for line in again[start:stop])
    assert float(shown["greedy/ap"]) == pytest.approx(metric["value"], abs=1e-4)


@pytest.mark.slow
def test_training_measures_benchmarks_before_and_after_and_reports_shared_images(
    root: Path, tmp_path: Path, cli: Cli, caplog: pytest.LogCaptureFixture
) -> None:
    run(
        cli,
        "debug=smoke",
        "reward=odlength",
        "dataset=coco",
        f"dataset.path={root}/coco/annotations/instances_val2017.json",
        f"dataset.images={root}/coco/val2017",
        "dataset.heldout_every=3",
        "eval=ovd",
        "eval.only=[coco_pos3_positive]",
        "eval.during=true",
        "eval.resamples=100",
        f"paths.data={root}",
        f"paths.output_dir={tmp_path}/run",
    )
    own = evals(tmp_path / "run")["benchmarks"]["coco_pos3_positive"]
    assert own["prompt"] == "run, rewritten wording"
    assert own["shared_images"]["of"] == 10
    assert 0 < own["shared_images"]["shared"] < 10  # those that are not held out
    assert "images of benchmark coco_pos3_positive are in the training data too" in caplog.text
    for moment in ("before", "after", "difference"):
        assert {"greedy/ap", "greedy/gp50"} <= set(own[moment])
    logged = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    steps = [
        one["step"] for one in logged if one["kind"] == "eval" and "coco_pos3_positive/ap" in one["metrics"]
    ]
    assert steps == [0, 2, 4]
    assert "coco_pos3_positive/ap" in (tmp_path / "run" / "report.html").read_text("utf-8")


def test_words_that_benchmarks_make_meaningless_are_refused(root: Path, cli: Cli) -> None:
    words = (*EVALUATE, f"paths.data={root}", "eval.on_missing=skip")
    assert "evaluates these alone, greedily" in cli(*words, "eval.sampled_k=2").error
    assert "there are no benchmarks" in cli("eval.during=true").error
    assert "eval.benchmarks.coco_filtered_all.dataset" in cli(*EVALUATE, "paths.data=nowhere").error
