"""A run on COCO files through the command line, and that the files hold the world they were made from."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import train
from scripts.shapes_to_coco import main
from tests.cli import make_cli

from groundrl.config.compose import compose_run
from groundrl.data.base import Split

WORLD = ("dataset.objects=[1,3]", "dataset.seed=5", "dataset.none_fraction=0")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("coco")
    assert main([str(made), "--samples", "12", "--heldout", "8", *WORLD]) == 0
    return made


def words(folder: Path) -> list[str]:
    return [
        "reward=odlength",
        "dataset=coco",
        f"dataset.path={folder}/instances_train.json",
        f"dataset.heldout_path={folder}/instances_heldout.json",
        "dataset.mode=positive",
    ]


def test_written_files_hold_the_world(folder: Path) -> None:
    """Pixels and boxes of every sample come back; the targets are those present."""
    for split, count in ((Split.TRAIN, 12), (Split.HELDOUT, 8)):
        world = compose_run(["reward=ap", "dataset=shapes_ovd", *WORLD]).dataset.build(split)
        coco = compose_run(words(folder)).dataset.build(split)
        assert coco.size == count
        for index in range(count):
            made, read = world.sample(index), coco.sample(index)
            assert read.truth.boxes == made.truth.boxes
            assert read.images[0].tobytes() == made.images[0].tobytes()
            assert set(read.targets) == {box.label for box in made.truth.boxes}
            assert read.id == f"instances_{split}:{index + 1}"


@pytest.mark.slow
def test_a_run_trains_on_coco_files(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    cli = make_cli(monkeypatch, capsys)
    done = cli(
        "debug=smoke",
        *words(folder),
        f"paths.output_dir={tmp_path}/run",
        job=train.job,
        ready=train.ready,
    )
    assert done.code == 0, done.err
    result = json.loads((tmp_path / "run" / "result.json").read_text("utf-8"))
    assert (result["status"], result["steps"]) == ("finished", 4)
    assert result["eval"]["before"]["greedy/ap50"]["value"] >= 0
    rows = [
        json.loads(line) for line in (tmp_path / "run" / "rollouts.jsonl").read_text("utf-8").splitlines()
    ]
    assert len(rows) == 4 * 2 * 4
    assert all(row["sample_id"].startswith("instances_train:") for row in rows)
