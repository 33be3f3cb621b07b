"""`dataset=llava` and `dataset=swift`: the last assistant turn is the truth, all before it the prompt."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from groundrl.data.base import Split
from groundrl.data.conversations import LlavaConfig, SwiftConfig
from groundrl.data.rows import OnError, RowSamples
from groundrl.errors import DataError
from groundrl.types import ImagePart, LabeledBox, Message, Task, TextPart


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "x").mkdir()
    Image.new("RGB", (40, 30)).save(tmp_path / "x" / "a.png")
    Image.new("RGB", (50, 60)).save(tmp_path / "x" / "b.png")
    return tmp_path


def load(kind: type[LlavaConfig | SwiftConfig], folder: Path, rows: Any, **settings: Any) -> RowSamples:
    file = folder / "r.json"
    file.write_text(rows if isinstance(rows, str) else json.dumps(rows), encoding="utf-8")
    return kind(path=str(file), heldout_path=str(file), **settings).build(Split.TRAIN)


def llava(*turns: str, **more: Any) -> dict[str, Any]:
    roles = ("human", "gpt")
    return {"conversations": [{"from": roles[i % 2], "value": text} for i, text in enumerate(turns)], **more}


def swift(*turns: str, **more: Any) -> dict[str, Any]:
    roles = ("user", "assistant")
    return {"messages": [{"role": roles[i % 2], "content": text} for i, text in enumerate(turns)], **more}


def test_a_talk_of_two_rounds_in_the_llava_format(folder: Path) -> None:
    row = llava("<image>\nWhat is it?", "A cat.", "Its colour?", "grey", id="997b", image="x/a.png")
    sample = load(LlavaConfig, folder, [row]).sample(0)
    assert sample.messages == (
        Message(role="user", parts=(ImagePart(0), TextPart("\nWhat is it?"))),
        Message(role="assistant", parts=(TextPart("A cat."),)),
        Message(role="user", parts=(TextPart("Its colour?"),)),
    )
    assert (sample.id, sample.task, sample.truth.answer) == ("r:997b", Task.text, "grey")
    assert (sample.question, sample.source) == ("Its colour?", "llava")


def test_images_of_later_turns_are_counted_on(folder: Path) -> None:
    row = llava("See <image>", "ok", "and <image>?", "2", images=["x/b.png", "x/a.png"])
    sample = load(LlavaConfig, folder, [row], task=Task.numeric).sample(0)
    assert sample.messages[2].parts == (TextPart("and "), ImagePart(1), TextPart("?"))
    assert [image.size for image in sample.images] == [(50, 60), (40, 30)]
    assert (sample.task, sample.truth.answer) == (Task.numeric, "2")


def test_a_system_turn_may_come_first(folder: Path) -> None:
    row = swift("Hi", "Hello")
    row["messages"].insert(0, {"role": "system", "content": "Be brief."})
    sample = load(SwiftConfig, folder, [row]).sample(0)
    assert [message.role for message in sample.messages] == ["system", "user"]
    assert sample.truth.answer == "Hello"


@pytest.mark.parametrize(
    ("row", "answer"),
    [
        (swift("How many?", "3"), "3"),
        (swift("How many?", solution="4"), "4"),
        (swift("How many?", answer=5), "5"),
        (swift("How many?", "a guess", solution="6"), "6"),
        (swift("How many?", solution="<answer> 7 </answer>", answer=None), "7"),
    ],
)
def test_the_truth_of_swift_rows(folder: Path, row: dict[str, Any], answer: str) -> None:
    sample = load(SwiftConfig, folder, [row], task=Task.numeric).sample(0)
    assert sample.truth.answer == answer
    assert sample.messages == (Message(role="user", parts=(TextPart("How many?"),)),)


def test_boxes_as_the_answer(folder: Path) -> None:
    reply = '```json\n[{"bbox_2d": [1, 2, 30, 20], "label": "dog"}]\n```'
    row = swift("<image>Find dogs", reply, images=["x/a.png"])
    sample = load(SwiftConfig, folder, [row], task=Task.ovd).sample(0)
    assert sample.truth.boxes == (LabeledBox((1.0, 2.0, 30.0, 20.0), "dog"),)
    assert sample.targets == ("dog",)


def test_absolute_paths_below_the_image_folder_are_as_good(folder: Path) -> None:
    row = swift("<image>?", "1", images=[str(folder / "x" / "a.png")])
    assert load(SwiftConfig, folder, [row]).sample(0).images[0].size == (40, 30)
    with pytest.raises(DataError, match="outside the data root"):
        load(SwiftConfig, folder, [row], images=str(folder / "elsewhere"))


@pytest.mark.parametrize(
    ("kind", "row", "problem"),
    [
        (LlavaConfig, llava("<image>?", "1"), "1 <image> marks for 0 images"),
        (LlavaConfig, llava("?", "1", image="x/a.png"), "0 <image> marks for 1 images"),
        (LlavaConfig, llava("?", "<image>", image="x/a.png"), "0 <image> marks for 1 images"),
        (
            LlavaConfig,
            llava("<image>?", "1", image="x/a.png", images=["x/b.png"]),
            "both `image` and `images`",
        ),
        (LlavaConfig, llava("?"), "has no answer"),
        (
            LlavaConfig,
            {"conversations": [{"from": "gpt", "value": "?"}]},
            "turn 1 is of assistant, expected user",
        ),
        (LlavaConfig, {"conversations": [{"from": "bot", "value": "?"}]}, "turn 1 has the from 'bot'"),
        (LlavaConfig, {"conversations": [{"from": ["x"], "value": "?"}]}, "turn 1 has the from ['x']"),
        (LlavaConfig, llava("?", ""), "turn 2 has no text"),
        (LlavaConfig, {"conversations": "talk"}, "no list of turns"),
        (SwiftConfig, llava("?", "1"), "no list of turns"),
        (SwiftConfig, {"messages": [{"role": "user", "content": None}]}, "turn 1 has no text"),
        (SwiftConfig, {"messages": [{"role": "system", "content": "x"}]}, "no user turn"),
        (SwiftConfig, swift("a", solution="1", answer="2"), "solution and answer differ"),
        (SwiftConfig, swift("a", "1", videos=["v.mp4"]), "uses `videos`"),
        (SwiftConfig, swift("<bbox>", "1", objects={"bbox": [[1, 2, 3, 4]]}), "uses `objects`"),
        (SwiftConfig, "text", "is a str, not an object"),
    ],
)
def test_bad_rows(folder: Path, kind: Any, row: Any, problem: str) -> None:
    good = llava("?", "1") if kind is LlavaConfig else swift("?", "1")
    with pytest.raises(DataError) as caught:
        load(kind, folder, [good, row])
    assert problem in str(caught.value)
    assert (caught.value.path, caught.value.row) == (str(folder / "r.json"), 2)
    assert len(load(kind, folder, [good, row], on_error=OnError.skip).rows) == 1


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('{"data": []}', "holds a dict at the top, expected a list"),
        ("", "is not JSON"),
        ('[{"a": ' + "[" * 100_000 + "]" * 100_000 + "}]", "is not JSON"),
        ('[{"id": "\\udc00"}]', "row 1: holds half a surrogate pair"),
        ('{"a": 1}\n{"a": 2}', "named .jsonl"),
        ("[]", "has no rows"),
    ],
)
def test_files_that_are_no_list(folder: Path, text: str, problem: str) -> None:
    with pytest.raises(DataError, match=problem):
        load(LlavaConfig, folder, text)


def test_ids_of_rows_without_one_come_from_their_content(folder: Path) -> None:
    rows = [llava(f"question {n}", "1") for n in range(4)]
    ids = {row.question: row.id for row in load(LlavaConfig, folder, rows).rows}
    again = {row.question: row.id for row in load(LlavaConfig, folder, rows[::-1]).rows}
    assert len(set(ids.values())) == 4
    assert again == ids
