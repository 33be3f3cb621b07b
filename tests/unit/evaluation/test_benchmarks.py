"""Which benchmarks a run evaluates, how they are asked, and which images they share with training."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from PIL import Image

from groundrl.config.compose import compose_run
from groundrl.data.base import Split
from groundrl.data.overlap import image_id, image_ids
from groundrl.errors import ConfigError
from groundrl.evaluation.benchmarks import load_benchmarks, shared_images

OWN = "+eval/benchmark@eval.benchmarks.mine=own"


def coco(folder: Path, numbers: range, name: str = "coco.json") -> Path:
    """One thing in each of some images named by number, as COCO names them."""
    folder.mkdir(parents=True, exist_ok=True)
    images = [{"id": n, "file_name": f"{n:012d}.png", "width": 64, "height": 64} for n in numbers]
    for image in images:
        Image.new("RGB", (64, 64)).save(folder / str(image["file_name"]))
    boxes = [{"id": n + 1, "image_id": n, "category_id": 1, "bbox": [1, 2, 30, 40]} for n in numbers]
    file = folder / name
    content = {"images": images, "annotations": boxes, "categories": [{"id": 1, "name": "thing"}]}
    file.write_text(json.dumps(content))
    return file


def rows(folder: Path, count: int) -> Path:
    Image.new("RGB", (64, 64)).save(folder / "a.png")
    file = folder / "rows.jsonl"
    line = '{{"image": "a.png", "question": "thing {0}", "boxes": [[1, 2, 30, 40]]}}'
    file.write_text("\n".join(line.format(number) for number in range(count)))
    return file


def test_the_whole_file_is_evaluated_not_a_held_out_part(tmp_path: Path) -> None:
    config = compose_run([OWN, f"eval.benchmarks.mine.dataset.path={rows(tmp_path, 30)}"])
    (own,), skipped = load_benchmarks(config.eval, config.task.name, config.prompt)
    assert (own.name, own.source.size, skipped) == ("mine", 30, {})


def test_the_runs_prompt_asks_in_benchmarks_of_its_task_and_another_prompt_elsewhere(tmp_path: Path) -> None:
    path = f"eval.benchmarks.mine.dataset.path={rows(tmp_path, 3)}"
    config = compose_run([OWN, path, "prompt=rec_no_think"])
    (own,), _ = load_benchmarks(config.eval, config.task.name, config.prompt)
    assert (own.prompt, own.own_prompt) == (config.prompt, False)
    file = coco(tmp_path / "coco", range(3))
    words = ["+eval/benchmark@eval.benchmarks.c=coco_filtered", f"eval.benchmarks.c.dataset.path={file}"]
    config = compose_run([*words, f"eval.benchmarks.c.dataset.images={file.parent}"])
    (foreign,), _ = load_benchmarks(config.eval, config.task.name, config.prompt)
    assert (foreign.prompt, foreign.own_prompt) == (config.eval.benchmarks["c"].prompt, True)
    assert "{targets}" in foreign.prompt.template


def test_a_missing_file_names_the_key_and_the_ways_out(tmp_path: Path) -> None:
    config = compose_run(["eval=rec", f"paths.data={tmp_path}"])
    with pytest.raises(ConfigError) as error:
        load_benchmarks(config.eval, config.task.name, config.prompt)
    assert str(error.value).startswith("eval.benchmarks.refcoco_val.dataset.heldout_path: no such file, got ")
    assert "eval.on_missing=skip" in str(error.value)
    assert "eval.only" in str(error.value)


def test_skipped_benchmarks_are_told_and_none_at_all_is_an_error(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    mine = [OWN, f"eval.benchmarks.mine.dataset.path={rows(tmp_path, 3)}"]
    words = ["eval=rec", "eval.on_missing=skip", f"paths.data={tmp_path}/none"]
    config = compose_run([*words, *mine])
    found, skipped = load_benchmarks(config.eval, config.task.name, config.prompt)
    assert [own.name for own in found] == ["mine"]
    assert len(skipped) == 10
    assert "no such file" in skipped["lisa"]
    assert "eval.benchmarks.lisa is skipped" in caplog.text
    config = compose_run(words)
    with pytest.raises(ConfigError, match="no benchmark's files are there"):
        load_benchmarks(config.eval, config.task.name, config.prompt)


def test_a_file_that_is_there_and_wrong_is_never_skipped(tmp_path: Path) -> None:
    bad = tmp_path / "bad.jsonl"
    bad.write_text('{"image": 3}\n')
    config = compose_run([OWN, f"eval.benchmarks.mine.dataset.path={bad}", "eval.on_missing=skip"])
    with pytest.raises(Exception, match=r"bad\.jsonl, row 1"):
        load_benchmarks(config.eval, config.task.name, config.prompt)


def test_only_chooses_and_refuses_unknown_names() -> None:
    config = compose_run(["eval=ovd", "eval.only=[coco_pos3_all,ovdeval_all]"])
    assert list(config.eval.chosen()) == ["coco_pos3_all", "ovdeval_all"]
    assert len(compose_run(["eval=ovd"]).eval.chosen()) >= 11
    with pytest.raises(
        ConfigError, match=r"eval\.only: is no benchmark, got 'coco_pos'; did you mean coco_pos"
    ):
        compose_run(["eval=ovd", "eval.only=[coco_pos]"])
    with pytest.raises(ConfigError, match=r"none \(choose eval=ovd, rec or qa\)"):
        compose_run(["eval.only=[lisa]"])


@pytest.mark.parametrize("name", ["greedy", "../x", "a.b"])
def test_a_name_that_cannot_be_a_file_is_refused(name: str) -> None:
    from groundrl.evaluation.config import BenchmarkConfig, EvalConfig

    with pytest.raises(ConfigError, match="a name goes into files and metrics"):
        EvalConfig(benchmarks={name: BenchmarkConfig()})


def test_modes_ask_for_what_they_say(tmp_path: Path) -> None:
    """Two categories in the file, one of them in each image."""
    file = coco(tmp_path / "coco" / "annotations", range(4), "instances_val2017.json")
    content = json.loads(file.read_text())
    content["categories"].append({"id": 2, "name": "other"})
    content["annotations"].append({"id": 99, "image_id": 0, "category_id": 1, "bbox": [30, 2, 9, 9]})
    file.write_text(json.dumps(content))
    only = "eval.only=[coco_filtered_all,coco_filtered_positive,coco_filtered_one_box,coco_pos2_all]"
    config = compose_run(["eval=ovd", only, f"paths.data={tmp_path}"])
    (every, positive, one_box, pos2), _ = load_benchmarks(config.eval, config.task.name, config.prompt)
    assert every.config.dataset.images.endswith("coco/val2017")  # type: ignore[attr-defined]
    asked = {own.name: [row.targets for row in own.source.rows] for own in (every, positive, one_box)}  # type: ignore[attr-defined]
    assert asked["coco_filtered_all"] == [("thing", "other")] * 4
    assert asked["coco_filtered_positive"] == [("thing",)] * 4
    # image 0 has two things, so none of its categories has exactly one box
    assert asked["coco_filtered_one_box"] == [("thing",)] * 3
    assert pos2.source.size == 3


def test_shared_images_are_found_under_the_names_of_two_releases(tmp_path: Path) -> None:
    train = compose_run(["reward=ap", "dataset=coco", f"dataset.path={coco(tmp_path / 'a', range(10))}"])
    other = compose_run(["reward=ap", "dataset=coco", f"dataset.path={coco(tmp_path / 'b', range(7, 12))}"])
    for config in (train, other):
        config.dataset.heldout_path = config.dataset.path  # type: ignore[attr-defined]
    trained, evaluated = train.dataset.build(Split.TRAIN), other.dataset.build(Split.HELDOUT)
    assert shared_images(trained, evaluated) == (3, 5, [f"coco:{n:012d}" for n in (7, 8, 9)])
    assert image_id("COCO_train2014_000000000009.jpg", tmp_path) == image_id(f"x/{9:012d}.png", Path("y"))
    assert image_id("a.png", tmp_path) != image_id("a.png", tmp_path / "b")
    assert image_id(b"abc", tmp_path) == image_id(b"abc", Path("y")) != image_id(b"abd", tmp_path)
    assert image_id("a1234567890123.png", tmp_path).startswith(str(tmp_path))  # 13 digits are no COCO number


def test_sources_that_cannot_name_their_images_are_unknown(tmp_path: Path) -> None:
    world = compose_run([]).dataset.build(Split.TRAIN)
    assert image_ids(world) is None
    assert shared_images(world, world) is None
    words = ["+dataset@dataset.parts.a=shapes_rec", "+dataset@dataset.parts.b=jsonl"]
    file = rows(tmp_path, 40)
    config = compose_run(["dataset=mixture", *words, f"dataset.parts.b.path={file}"])
    assert image_ids(config.dataset.build(Split.TRAIN)) == {str(tmp_path / "a.png")}
