"""Pictures for outside services: which are sent, what is drawn, and what TensorBoard holds."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from groundrl.tracking.base import Picture
from groundrl.tracking.config import JsonlConfig, TensorboardConfig
from groundrl.tracking.drawing import ANSWER, TRUTH, drawing
from groundrl.tracking.guard import Guard
from groundrl.tracking.pictures import MOST_BOXES, PictureBudget, drawn_boxes, plain
from groundrl.types import LabeledBox


def picture(step: int = 1, phase: str = "eval", **changes: Any) -> Picture:
    values: dict[str, Any] = {
        "sample_id": "s", "question": "q", "image": None, "truth": [], "kind": "greedy", "text": "t",
        "parse_status": "ok", "boxes": [], "reward": None, "tokens": 1,
    }  # fmt: skip
    return Picture(step=step, phase=phase, **(values | changes))


def steps(pictures: list[Picture]) -> list[int]:
    return [one.step for one in pictures]


def test_a_budget_that_is_large_enough_lets_everything_through() -> None:
    budget = PictureBudget(8)
    assert steps(budget.admit([picture(0)] * 2)) == [0, 0]
    assert steps(budget.admit([picture(1, "train")] * 2)) == [1, 1]  # 2 + 2 + 2 in reserve <= 8
    assert steps(budget.admit([picture(2)] * 2)) == [2, 2]
    assert budget.last() == []
    assert budget.sent == 6


def test_never_more_than_the_budget_and_the_last_evaluation_at_the_end() -> None:
    budget = PictureBudget(7)
    sent = [one for step in range(9) for one in budget.admit([picture(step)] * 3)]
    assert steps(sent) == [0, 0, 0]  # 0 + 3 + 3 <= 7, then 3 + 3 + 3 > 7
    assert steps(budget.last()) == [8, 8, 8]
    assert budget.sent == 6
    assert budget.last() == []


def test_a_budget_smaller_than_an_evaluation_shows_a_part_of_the_last() -> None:
    budget = PictureBudget(2)
    assert [budget.admit([picture(step)] * 3) for step in (0, 1)] == [[], []]
    assert steps(budget.last()) == [1, 1]
    assert (PictureBudget(0).admit([picture()]), PictureBudget(0).admit([])) == ([], [])


def test_a_resumed_budget_goes_on_where_it_was() -> None:
    assert PictureBudget(8, sent=5).admit([picture()] * 2) == []
    assert len(PictureBudget(8, sent=4).admit([picture()] * 2)) == 2


def test_only_boxes_that_can_be_drawn() -> None:
    odd = [LabeledBox((9, 8, 1, 2), "a\ud83d"), LabeledBox((float("nan"), 0, 1, 1)), LabeledBox((0, 0, 1, 1))]
    assert [(box.xyxy, box.label) for box in drawn_boxes(odd)] == [((1, 2, 9, 8), "a?"), ((0, 0, 1, 1), "")]
    assert len(drawn_boxes([LabeledBox((0, 0, 1, 1))] * 5000)) == MOST_BOXES


def test_long_text_is_cut_and_says_so() -> None:
    assert plain("x" * 4000) == "x" * 4000
    assert plain("x" * 4001) == "x" * 4000 + " ... (4001 characters)"


def test_edges_are_drawn_on_the_pixels_that_a_box_covers(tmp_path: Path) -> None:
    """Truth (2, 3, 8, 7) covers pixels 2..7 by 3..6; the answer (0, 0, 99, 99) is kept inside 20 x 10."""
    file = tmp_path / "a.png"
    Image.new("RGB", (20, 10)).save(file)
    drawn = drawing(picture(truth=[LabeledBox((2, 3, 8, 7))], boxes=[LabeledBox((0, 0, 99, 99))]), file)
    pixels = np.asarray(drawn)
    green = np.argwhere((pixels == TRUTH).all(-1))
    assert (green.min(0).tolist(), green.max(0).tolist()) == ([3, 2], [6, 7])
    assert len(green) == 2 * 6 + 2 * 2  # a frame of 6 by 4 pixels
    orange = (pixels == ANSWER).all(-1)
    assert orange.sum() == 2 * 20 + 2 * 8
    assert orange[0].all()
    assert orange[9].all()


def test_a_box_without_area_still_shows(tmp_path: Path) -> None:
    file = tmp_path / "a.png"
    Image.new("RGB", (20, 10)).save(file)
    pixels = np.asarray(
        drawing(picture(truth=[LabeledBox((5, 5, 5, 5)), LabeledBox((50, 50, 60, 60))]), file)
    )
    green = np.argwhere((pixels == TRUTH).all(-1)).tolist()
    assert [5, 5] in green
    assert [9, 19] in green
    assert len(green) < 5


def test_tensorboard_holds_images_under_tags_that_stay(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    events = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    file = tmp_path / "a.png"
    Image.new("RGB", (20, 10)).save(file)
    tracker = TensorboardConfig().build(run_dir=tmp_path, run_name="r", config_dict={})
    truth = [LabeledBox((2, 3, 8, 7))]
    for step in (0, 4):
        shown = [
            picture(step, image=file, truth=truth),
            picture(step, image=file, kind="sampled"),
            picture(step),
        ]
        tracker.show([*shown, picture(step, image=file, sample_id="other")])
    tracker.show([picture(5, "train", image=file)])
    tracker.finish("finished", {"best": 0.5})
    read = events.EventAccumulator(str(tmp_path / "tensorboard"), size_guidance={"images": 0})
    read.Reload()
    held = {tag: [event.step for event in read.Images(tag)] for tag in read.Tags()["images"]}
    assert held == {
        "answers/eval/s/0": [0, 4],
        "answers/eval/s/1": [0, 4],
        "answers/eval/other/0": [0, 4],
        "answers/train/0": [5],
    }
    with Image.open(io.BytesIO(read.Images("answers/eval/s/0")[0].encoded_image_string)) as image:
        assert image.getpixel((2, 3)) == TRUTH
    assert caplog.records == []


def test_tensorboard_goes_on_without_a_picture(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    events = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    tracker = TensorboardConfig().build(run_dir=tmp_path, run_name="r", config_dict={})
    for step in (1, 2):
        tracker.show([picture(step, image=tmp_path / "gone.png")])
        tracker.log(step, "train", {"a": 1.0})
    tracker.finish("finished", {})
    read = events.EventAccumulator(str(tmp_path / "tensorboard"))
    read.Reload()
    assert [event.step for event in read.Scalars("a")] == [1, 2]
    (said,) = [record.getMessage() for record in caplog.records]
    assert said.startswith("TensorBoard gets no more pictures (")


def test_the_run_folder_alone_needs_no_pictures(tmp_path: Path) -> None:
    tracker = JsonlConfig().build(run_dir=tmp_path, run_name="r", config_dict={})
    tracker.show([picture()])
    assert tracker.state() == {"step": -1}
    tracker.finish("finished", {"best": 0.5})
    assert (tmp_path / "metrics.jsonl").read_bytes() == b""


def test_a_guard_lets_errors_of_the_program_through() -> None:
    guard = Guard("lost ({})", (OSError,))
    with pytest.raises(ZeroDivisionError):
        guard(lambda: print(1 / 0))
    assert not guard.lost
