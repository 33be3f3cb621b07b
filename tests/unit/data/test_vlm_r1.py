"""`dataset=vlm_r1`: methods become tasks, marks keep their place, bad rows are named."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from groundrl.data.base import Split
from groundrl.data.rows import OnError, RowSamples
from groundrl.data.vlm_r1 import METHODS, VlmR1Config, is_number
from groundrl.errors import DataError
from groundrl.types import ImagePart, LabeledBox, Sample, Task, TextPart


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    Image.new("RGB", (40, 30), (1, 2, 3)).save(tmp_path / "a.png")
    Image.new("RGB", (50, 60), (4, 5, 6)).save(tmp_path / "b.png")
    return tmp_path


def talk(ask: str, reply: object, **more: Any) -> dict[str, Any]:
    return {"conversations": [{"from": "human", "value": ask}, {"from": "gpt", "value": reply}], **more}


def load(folder: Path, *rows: object, **settings: Any) -> RowSamples:
    """The rows serve both splits, so that none is held out."""
    file = folder / "r.jsonl"
    lines = [row if isinstance(row, str) else json.dumps(row, ensure_ascii=False) for row in rows]
    file.write_text("\n".join(lines), encoding="utf-8")
    return VlmR1Config(path=str(file), heldout_path=str(file), **settings).build(Split.TRAIN)


def samples(folder: Path, *rows: object, **settings: Any) -> list[Sample]:
    source = load(folder, *rows, **settings)
    return [source.sample(index) for index in range(source.size or 0)]


def test_a_row_of_the_readme(folder: Path) -> None:
    (sample,) = samples(folder, talk("<image>How many balls?", "0", id=1, image="a.png"))
    assert (sample.id, sample.task, sample.truth.answer) == ("r:1", Task.numeric, "0")
    assert sample.messages[0].role == "user"
    assert sample.messages[0].parts == (ImagePart(0), TextPart("How many balls?"))
    assert sample.question == "How many balls?"
    assert [image.size for image in sample.images] == [(40, 30)]


def test_marks_keep_their_place_in_several_images(folder: Path) -> None:
    ask = "Compare <image> with <image>\nnow."
    (sample,) = samples(folder, talk(ask, 3, image=["b.png", "a.png"]))
    assert sample.messages[0].parts == (
        TextPart("Compare "),
        ImagePart(0),
        TextPart(" with "),
        ImagePart(1),
        TextPart("\nnow."),
    )
    assert [image.size for image in sample.images] == [(50, 60), (40, 30)]
    assert sample.truth.answer == "3"


def test_text_only(folder: Path) -> None:
    (sample,) = samples(folder, talk("What is 1 + 1?", 2))
    assert sample.images == ()
    assert sample.messages[0].parts == (TextPart("What is 1 + 1?"),)


@pytest.mark.parametrize(
    ("method", "reply", "task", "answer"),
    [
        ("mcq", "B", Task.mcq, "B"),
        ("yes_no", "Yes", Task.yes_no, "Yes"),
        ("math", "\\frac{1}{2}", Task.text, "\\frac{1}{2}"),
        ("all_match", "a cat", Task.text, "a cat"),
        ("default", "12", Task.numeric, "12"),
        ("default", 10**400, Task.text, "1" + "0" * 400),
        ("default", -0.5, Task.numeric, "-0.5"),
        ("default", "12 cats", Task.text, "12 cats"),
        ("default", "nan", Task.text, "nan"),
        ("default", "<answer> 7 </answer>", Task.numeric, "7"),
        ("mcq", "<think>so</think><answer> C </answer>", Task.mcq, "C"),
    ],
)
def test_methods_of_answers(folder: Path, method: str, reply: object, task: Task, answer: str) -> None:
    (sample,) = samples(folder, talk("Which?", reply, accu_reward_method=method))
    assert (sample.task, sample.truth.answer, sample.truth.boxes) == (task, answer, ())


def test_without_a_method_the_task_of_the_run_counts(folder: Path) -> None:
    row = talk("Which?", "12")
    tasks = [samples(folder, row, task=task)[0].task for task in (Task.numeric, Task.text)]
    assert tasks == [Task.numeric, Task.text]
    (sample,) = samples(folder, talk("<image>the cat", "[1, 2, 30, 20]", image="a.png"), task=Task.rec)
    assert sample.truth.boxes == (LabeledBox((1.0, 2.0, 30.0, 20.0)),)


@pytest.mark.parametrize("method", ["map", "od_ap", "od_ap50", "odLength", "weighted_sum"])
def test_detection_targets_are_the_labels_of_the_solution(folder: Path, method: str) -> None:
    items = [
        {"bbox_2d": [1, 2, 30, 20], "label": "dog"},
        {"bbox_2d": [5, 6, 7, 8], "label": "cat", "image": 1},
        {"bbox_2d": [2, 2, 9, 9], "label": "dog"},
    ]
    fence = f"```json\n{json.dumps(items)}\n```"
    row = talk(
        "<image><image>Find targets: dog, cat, bird",
        fence,
        image=["a.png", "b.png"],
        accu_reward_method=method,
    )
    (sample,) = samples(folder, row)
    assert (sample.task, sample.targets) == (Task.ovd, ("dog", "cat"))
    assert sample.truth.boxes == (
        LabeledBox((1.0, 2.0, 30.0, 20.0), "dog", 0),
        LabeledBox((5.0, 6.0, 7.0, 8.0), "cat", 1),
        LabeledBox((2.0, 2.0, 9.0, 9.0), "dog", 0),
    )


@pytest.mark.parametrize("nothing", ["None", "```json\n[]\n```", "<answer>None</answer>"])
def test_a_detection_row_without_objects(folder: Path, nothing: str) -> None:
    (sample,) = samples(
        folder, talk("<image>Find cats", nothing, image="a.png", accu_reward_method="odLength")
    )
    assert (sample.task, sample.truth.boxes, sample.targets) == (Task.ovd, (), ())


def boxes(reply: object, method: str = "odLength") -> dict[str, Any]:
    return talk("<image>Find", reply, image="a.png", accu_reward_method=method)


LABELLED = '[{"bbox_2d": [1, 2, 3, 4], "label": "cat", "image": 1}]'


@pytest.mark.parametrize(
    ("row", "problem"),
    [
        (talk("<image> and <image>", 1, image="a.png"), "2 <image> marks for 1 images"),
        (talk("no mark", 1, image=["a.png", "b.png"]), "0 <image> marks for 2 images"),
        (talk("<image>", 1), "1 <image> marks for 0 images"),
        (talk("?", 1, accu_reward_method="llm"), "'llm' has no counterpart here; use one of default, mcq"),
        (talk("?", 1, accu_reward_method=7), "accu_reward_method 7 has"),
        (talk("<image>?", 1, image="no.png"), "image 'no.png' does not exist"),
        (talk("<image>?", 1, image=3), "image 3 is not a path"),
        (talk("?", True), "the answer True is neither"),
        (talk("?", None), "the answer None is neither"),
        (talk("?", float("inf")), "the answer inf is neither"),
        (talk("?", "  "), "the answer is empty"),
        (talk("?", "<answer>1"), "tags that do not pair"),
        (talk("?", "<answer>1</answer><answer>2</answer>"), "tags that do not pair"),
        (talk("?", "maybe", accu_reward_method="yes_no"), "cannot be read as yes_no"),
        ({"conversations": []}, "not one human and one gpt turn"),
        ({"conversations": talk("?", "1")["conversations"][::-1]}, "turn 1 is of assistant, expected user"),
        (boxes("[3, 2, 1, 4]", "rec"), "refused (swapped_corners)"),
        (boxes("[1, 2, 3]", "rec"), "refused (wrong_count)"),
        (boxes("None", "rec"), "the solution holds no box"),
        (boxes("a cat", "rec"), "holds no boxes"),
        (boxes('[{"bbox_2d": [1, 2, 3, 4]}]'), "refused (no_label)"),
        (boxes(LABELLED), "a box is on image 1 of 1"),
        ("{not json", "is not JSON"),
        ('{"id": "\\ud800"}', "half a surrogate pair"),
        ("[1]", "is a list, not an object"),
        ("[" * 100_000, "is not JSON"),
    ],
)
def test_bad_rows_name_the_file_the_row_and_the_reason(folder: Path, row: object, problem: str) -> None:
    good = talk("<image>How many?", 1, image="a.png")
    with pytest.raises(DataError) as caught:
        load(folder, good, row)
    assert problem in str(caught.value)
    assert (caught.value.path, caught.value.row) == (str(folder / "r.jsonl"), 2)


def test_skipped_rows_are_counted(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    rows = (talk("?", 1), "{", talk("<image>", 2), talk("?", 3))
    kept = samples(folder, *rows, on_error=OnError.skip)
    assert [sample.truth.answer for sample in kept] == ["1", "3"]
    assert "2 rows were skipped; first" in caplog.text
    assert "assumed: boxes are [x1, y1, x2, y2]" in caplog.text


def test_a_file_of_xywh_boxes_is_refused_as_a_whole(folder: Path) -> None:
    """Two of three boxes end before they begin: the order is in doubt, so skipping is no answer."""
    rows = [boxes(f"[{x}, 20, 9, 9]", "rec") for x in (20, 30, 1)]
    rows[2] = boxes("[1, 2, 3, 4]", "rec")
    with pytest.raises(DataError, match=r"2 of 3 boxes.*the order may be wrong"):
        load(folder, *rows, on_error=OnError.skip)
    assert len(load(folder, rows[0], rows[2], on_error=OnError.skip).rows) == 1  # one of two is not most


def test_the_split_follows_the_images_and_not_the_order(folder: Path) -> None:
    for number in range(30):
        Image.new("RGB", (30, 30)).save(folder / f"{number}.png")
    rows = [talk(f"<image>q{n}", n, image=f"{n % 30}.png") for n in range(60)]

    def held(order: list[dict[str, Any]]) -> set[str]:
        file = folder / "s.jsonl"
        file.write_text("\n".join(json.dumps(row) for row in order), encoding="utf-8")
        source = VlmR1Config(path=str(file), heldout_every=3).build(Split.HELDOUT)
        return {source.sample(index).id + source.sample(index).question for index in range(source.size or 0)}

    first = held(rows)
    assert 0 < len(first) < 60
    assert len(first) % 2 == 0  # both questions about an image are on one side
    assert held(rows[::-1]) == first


def test_every_method_but_the_judge_has_a_task() -> None:
    known = {
        "mcq",
        "yes_no",
        "math",
        "all_match",
        "rec",
        "map",
        "od_ap",
        "od_ap50",
        "odLength",
        "weighted_sum",
    }
    assert known < set(METHODS)
    assert "llm" not in METHODS
    assert [is_number(text) for text in ("1e3", " 5 ", "1_0", "٣", "inf", "", "1/2")] == [
        True, True, False, False, False, False, False,
    ]  # fmt: skip
