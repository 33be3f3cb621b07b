"""What the real W&B records offline, read back. Nothing goes over the network."""

from __future__ import annotations

import io
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from PIL import Image
from tests.unit.tracking.wandb_file import WandbFile, offline_files

from groundrl.tracking.base import Picture
from groundrl.tracking.config import WandbConfig, WandbMode
from groundrl.types import LabeledBox

wandb = pytest.importorskip("wandb")
CORNERS = ("minX", "minY", "maxX", "maxY")


@pytest.fixture(autouse=True)
def no_account(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name in ("WANDB_API_KEY", "WANDB_DATA_DIR", "WANDB_SWEEP_ID", "WANDB_MODE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HF_TOKEN", "hf_abcdefgh")
    yield
    wandb.teardown()
    assert "WANDB_DATA_DIR" not in os.environ


def build(run_dir: Path, state: dict[str, Any] | None = None, **changes: Any) -> Any:
    config = WandbConfig(mode=WandbMode.auto, **changes)
    settings = {"lr": 0.5, "model": {"api_key": "opensesame"}}
    return config.build(
        run_dir=run_dir, run_name="r1", config_dict=settings, preset="ovd_hack", resume_state=state
    )


def picture(run_dir: Path, step: int = 3, **changes: Any) -> Picture:
    image = run_dir / "images" / "s.png"
    if not image.exists():
        image.parent.mkdir(exist_ok=True)
        Image.new("RGB", (64, 48), (9, 8, 7)).save(image)
    values: dict[str, Any] = {
        "step": step,
        "phase": "eval",
        "sample_id": "s",
        "question": "the cat",
        "image": image,
        "truth": [LabeledBox((1, 2, 30, 40), "cat")],
        "kind": "greedy",
        "text": "it is hf_abcdefgh",
        "parse_status": "ok",
        "boxes": [
            LabeledBox((5.5, 6, 7, 8)),
            LabeledBox((float("inf"), 0, 1, 1)),
            LabeledBox((9, 9, 4, 3), "dog"),
        ],
        "reward": 0.25,
        "tokens": 12,
    }
    return Picture(**(values | changes))


def only(run_dir: Path) -> WandbFile:
    (found,) = offline_files(run_dir)
    return found


def test_config_history_summary_group_and_tags(tmp_path: Path) -> None:
    tracker = build(tmp_path, tags=["t1", "t2"], project="p")
    tracker.log(0, "eval", {"greedy/ap": {"value": 0.5, "low": 0.25, "high": None}})
    tracker.log(1, "train", {"reward/total": 0.5})
    tracker.log(2, "train", {"reward/total": 0.75, "undefined": None})
    tracker.finish(
        "finished", {"after/greedy/ap": {"value": 0.75, "low": 0.5, "high": 1.0}, "best": None, "steps": 2}
    )
    written = only(tmp_path)
    assert (written.run.project, written.run.display_name, written.run.run_group) == ("p", "r1", "ovd_hack")
    assert list(written.run.tags) == ["t1", "t2"]
    assert written.run.run_id == tracker.state()["wandb"]["id"]
    assert {key: written.config[key] for key in ("lr", "model")} == {
        "lr": 0.5,
        "model": {"api_key": "<hidden>"},
    }
    assert written.series("reward/total") == [(1, 0.5), (2, 0.75)]
    assert written.series("eval/greedy/ap") == [(0, 0.5)]
    assert written.series("eval/greedy/ap/low") == [(0, 0.25)]
    assert not any("undefined" in row or "eval/greedy/ap/high" in row for row in written.history)
    kept = ("status", "after/greedy/ap", "after/greedy/ap/low", "after/greedy/ap/high", "steps")
    assert [written.summary[key] for key in kept] == ["finished", 0.75, 0.5, 1.0, 2]
    assert "best" not in written.summary
    assert written.exit_code == 0


def test_a_set_group_wins_over_the_preset(tmp_path: Path) -> None:
    build(tmp_path, group="mine").finish("interrupted", {})
    written = only(tmp_path)
    assert written.run.run_group == "mine"
    assert (written.summary["status"], written.exit_code) == ("interrupted", 1)


def test_a_table_holds_answers_images_and_boxes(tmp_path: Path) -> None:
    tracker = build(tmp_path)
    bare = picture(tmp_path, kind="sampled", image=None, text="\ud83d", reward=None, truth=[], boxes=[])
    tracker.show([picture(tmp_path), bare])
    tracker.finish("finished", {})
    written = only(tmp_path)
    assert [step for step, _ in written.series("answers/eval/_type")] == [3]
    (table,) = written.tables()
    assert table["name"] == "answers/eval.table.json"
    rows = [dict(zip(table["columns"], row, strict=True)) for row in table["data"]]
    shown = {key: value for key, value in rows[0].items() if key != "image"}
    assert shown == {
        "step": 3, "phase": "eval", "sample": "s", "question": "the cat", "kind": "greedy", "reward": 0.25,
        "answer": "it is <hidden>", "parse_status": "ok", "tokens": 12, "true_boxes": 1, "boxes": 3,
    }  # fmt: skip
    assert (rows[1]["image"], rows[1]["answer"], rows[1]["reward"]) == (None, "?", None)
    image = rows[0]["image"]
    with Image.open(io.BytesIO(table["files"][image["path"]])) as stored:
        assert (stored.size, stored.getpixel((0, 0))) == ((64, 48), (9, 8, 7))
    truth, answer = image["boxes"]["truth"], image["boxes"]["answer"]
    assert truth == [
        {"position": {"minX": 1, "minY": 2, "maxX": 30, "maxY": 40}, "domain": "pixel", "class_id": 1,
         "box_caption": "cat"}
    ]  # fmt: skip
    # the box that is not finite is left out, the one given from right to left turned round
    assert [([box["position"][key] for key in CORNERS], box["box_caption"]) for box in answer] == [
        ([5.5, 6, 7, 8], "answer"),
        ([4, 3, 9, 9], "dog"),
    ]
    assert {box["class_id"] for box in answer} == {2}
    classes = [text for path, text in table["files"].items() if path.endswith(".classes.json")]
    assert [b"truth" in text and b"answer" in text for text in classes] == [True]


def test_everything_of_a_table_lies_in_the_run_folder(tmp_path: Path) -> None:
    tracker = build(tmp_path)
    tracker.show([picture(tmp_path)])
    tracker.finish("finished", {})
    (artifact,) = only(tmp_path).artifacts
    places = [Path(entry.local_path) for entry in artifact.manifest.contents]
    assert len(places) == 3
    assert all(place.is_relative_to(tmp_path / "wandb") for place in places)
    everything = b"".join(path.read_bytes() for path in (tmp_path / "wandb").rglob("*") if path.is_file())
    assert b"opensesame" not in everything
    assert b"hf_abcdefgh" not in everything


def test_pictures_are_bounded_and_the_last_evaluation_is_among_them(tmp_path: Path) -> None:
    """5 pictures, evaluations of 2: the first is sent (2 + 2 in reserve <= 5), a group of 2 is not
    (2 + 2 + 2), the next evaluations are held back, and the last of them goes out at the end."""
    tracker = build(tmp_path, pictures=5)
    for step in (0, 2, 4):
        tracker.show([picture(tmp_path, step), picture(tmp_path, step)])
        tracker.show([picture(tmp_path, step + 1, phase="train")] * 2)
    assert tracker.state()["pictures"] == 2
    tracker.finish("finished", {})
    written = only(tmp_path)
    assert written.series("answers/eval/nrows") == [(0, 2), (4, 2)]
    assert written.series("answers/train/nrows") == []


def test_a_resumed_run_keeps_its_id_and_goes_on(tmp_path: Path) -> None:
    first = build(tmp_path)
    for step in (1, 2, 3):
        first.log(step, "train", {"reward/total": step / 10})
    saved = first.state()
    first.finish("interrupted", {})
    time.sleep(1.1)  # W&B names its folder by the second
    second = build(tmp_path, saved | {"final_step": 5})
    for step in (4, 5):
        second.log(step, "train", {"reward/total": step / 10})
    second.finish("finished", {"best": 0.5})
    before, after = offline_files(tmp_path)
    assert before.run.run_id == after.run.run_id == saved["wandb"]["id"]
    assert after.run.resume is True
    assert [step for part in (before, after) for step, _ in part.series("reward/total")] == [1, 2, 3, 4, 5]
    assert (before.summary["status"], after.summary["status"]) == ("interrupted", "finished")


def test_a_picture_that_cannot_be_read_leaves_its_cell_empty(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    broken = tmp_path / "broken.png"
    broken.write_bytes(b"no image")
    tracker = build(tmp_path)
    tracker.show([picture(tmp_path, image=broken), picture(tmp_path, image=tmp_path / "gone.png")])
    tracker.show([picture(tmp_path, 4)])
    tracker.finish("finished", {})
    first, second = only(tmp_path).tables()
    place = first["columns"].index("image")
    assert [row[place] for row in first["data"]] == [None, None]
    assert second["data"][0][place] is not None
    assert len([one for one in caplog.records if "is not shown in W&B" in one.getMessage()]) == 2


def test_a_failure_with_pictures_is_reported_once_and_numbers_go_on(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*args: Any, **keywords: Any) -> None:
        raise ValueError("bad boxes")

    tracker = build(tmp_path)
    monkeypatch.setattr(wandb, "Image", fail)
    for step in (1, 2):
        tracker.show([picture(tmp_path, step)])
        tracker.log(step, "train", {"a": 1.0})
    tracker.finish("finished", {})
    written = only(tmp_path)
    assert [step for step, _ in written.series("a")] == [1, 2]
    assert written.artifacts == []
    own = [one for one in caplog.records if one.name.startswith("groundrl")]
    assert [one.getMessage() for one in own] == [
        "W&B gets no more pictures (bad boxes); gallery.jsonl has them"
    ]


@pytest.mark.filterwarnings("ignore::ResourceWarning")  # W&B leaves the sweep's file open
def test_inside_a_sweep_its_words_do_not_hide_the_settings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The agent's file says `model: tiny`; the settings of the group `model` must not be lost to it."""
    words = tmp_path / "sweep.yaml"
    words.write_text("wandb_version: 1\nmodel:\n  value: tiny\n")
    monkeypatch.setenv("WANDB_SWEEP_ID", "sweep1")
    monkeypatch.setenv("WANDB_SWEEP_PARAM_PATH", str(words))
    monkeypatch.setenv("WANDB_RUN_ID", "givenid1")
    wandb.teardown()
    tracker = build(tmp_path)
    tracker.log(1, "train", {"a": 1.0})
    tracker.finish("finished", {})
    written = only(tmp_path)
    assert tracker.state()["wandb"] == {"id": "givenid1"}
    assert written.run.run_id == "givenid1"
    assert written.config["model"] == "tiny"
    assert written.config["settings"] == {"lr": 0.5, "model": {"api_key": "<hidden>"}}
