"""`dataset=qa` on the rows of known data sets, with the words of docs/howto/data/qa.md.

One small file a set: its keys and the form of its values are those of the owner's file or, where that page
says so, what code that reads it expects. Questions, answers and pictures are made up.
"""

from __future__ import annotations

import base64
import io
import json
import re
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from groundrl.config.compose import compose_run
from groundrl.config.repo import repo_root
from groundrl.data.base import Split
from groundrl.errors import ConfigError, DataError
from groundrl.types import Sample, Task


def png(size: tuple[int, int]) -> bytes:
    made = io.BytesIO()
    Image.new("RGB", size, (9, 8, 7)).save(made, "PNG")
    return made.getvalue()


BASE64 = base64.b64encode(png((31, 29))).decode()
OBJECT = {"bytes": BASE64, "path": None}
"""An image as the library `datasets` stores it."""

SETS: dict[str, dict[str, Any]] = {
    "ChartQA JSON": {
        "row": {"imgname": "41699051005347.png", "query": "How many bars are blue?", "label": "3"},
        "image": "41699051005347.png",
        "sample": (Task.numeric, "How many bars are blue?", "3"),
    },
    "ChartQA Parquet": {
        "row": {"image": OBJECT, "query": "Which year?", "label": ["2014"], "human_or_machine": 0},
        "sample": (Task.numeric, "Which year?", "2014"),
    },
    "MathVision": {
        "row": {
            "id": "7",
            "question": "Which piece fits? <image1>",
            "options": ["A", "B", "C", "D", "E"],
            "image": "images/7.jpg",
            "decoded_image": OBJECT,
            "answer": "D",
            "solution": None,
            "level": 1,
            "subject": "combinatorial geometry",
        },
        "id": "7",
        "sample": (Task.mcq, "Which piece fits? <image1>\nA\nB\nC\nD\nE", "D"),
    },
    "MMStar": {
        "row": {
            "index": 0,
            "question": "What is shown?\nOptions: A: A ring, B: A dam, C: A mill, D: A pool",
            "image": OBJECT,
            "answer": "A",
            "category": "coarse perception",
            "l2_category": "image scene and topic",
            "meta_info": {"source": "MMBench", "split": "val", "image_path": "images/0.jpg"},
        },
        "sample": (Task.mcq, "What is shown?\nOptions: A: A ring, B: A dam, C: A mill, D: A pool", "A"),
    },
    "ThinkLite-VL": {
        "row": {"id": 12, "problem": "<image>Find the angle.", "answer": "60°", "image": BASE64},
        "id": "12",
        "sample": (Task.text, "Find the angle.", "60°"),
    },
    "V*": {
        "row": {
            "image": "direct_attributes/sa_1.jpg",
            "text": "What colour is the cup?\n(A) red\n(B) blue\nAnswer with the letter.",
            "category": "direct_attributes",
            "question_id": "7",
            "label": "B",
        },
        "image": "direct_attributes/sa_1.jpg",
        "sample": (Task.mcq, "What colour is the cup?\n(A) red\n(B) blue\nAnswer with the letter.", "B"),
    },
    "TableVQA-Bench VTabFact": {
        "row": {
            "qa_id": "vtabfact_1",
            "question": "the team won twice",
            "gt": 0,
            "image": OBJECT,
            "text_html_table": "<table></table>",
        },
        "sample": (Task.yes_no, "the team won twice", "no"),
    },
    "TableVQA-Bench VWTQ, FinTabNetQA": {
        "row": {"qa_id": "vwtq_1", "question": "Which team?", "gt": "Milwaukee", "image": OBJECT},
        "sample": (Task.text, "Which team?", "Milwaukee"),
    },
    "SuperCLEVR": {
        "row": {
            "image_path": "./images/superCLEVR_new_025000.png",
            "question": "How many different items are there in the image?",
            "ground_truth": 4,
        },
        "image": "images/superCLEVR_new_025000.png",
        "sample": (Task.numeric, "How many different items are there in the image?", "4"),
    },
    "CLEVR-70k": {
        "row": {
            "image": OBJECT,
            "problem": "How many items are there in the image?",
            "solution": "<answer> 3 </answer>",
        },
        "sample": (Task.numeric, "How many items are there in the image?", "3"),
    },
}


def documented() -> dict[str, list[str]]:
    """Data set -> the words that its row of the table in the docs gives."""
    text = (repo_root() / "docs" / "howto" / "data" / "qa.md").read_text("utf-8")
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines()]
    tables = {row[0]: row[3].split("`")[1] for row in rows if len(row) == 4 and row[3].count("`") == 2}
    return {name: [_full(word) for word in words.split()] for name, words in tables.items()}


def _full(word: str) -> str:
    return word if word.startswith("task=") else f"dataset.{word}"


def load(folder: Path, name: str, row: dict[str, Any]) -> Sample:
    file = folder / "rows.jsonl"
    file.write_text(json.dumps(row, ensure_ascii=False), encoding="utf-8")
    words = ["reward=answer", "dataset=qa", f"dataset.path={file}", f"dataset.heldout_path={file}"]
    return compose_run([*words, *documented()[name]]).dataset.build(Split.HELDOUT).sample(0)


def test_every_documented_set_has_rows_here() -> None:
    assert set(documented()) == set(SETS)


@pytest.mark.parametrize("name", SETS)
def test_a_row_of_each_set(tmp_path: Path, name: str) -> None:
    given = SETS[name]
    if "image" in given:
        (tmp_path / given["image"]).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / given["image"]).write_bytes(png((31, 29)))
    sample = load(tmp_path, name, given["row"])
    assert (sample.task, sample.question, sample.truth.answer) == given["sample"]
    assert [(image.size, image.getpixel((0, 0))) for image in sample.images] == [((31, 29), (9, 8, 7))]
    assert sample.id == f"rows:{given['id']}" if "id" in given else re.fullmatch(r"rows:[0-9a-f]+", sample.id)
    assert (sample.messages, sample.targets, sample.truth.boxes) == ((), (), ())


@pytest.mark.parametrize(
    ("truth", "read"),
    [(1, "yes"), ("0", "no"), (True, "yes"), (" False ", "no"), ("Yes", "Yes"), ("no", "no")],
)
def test_truths_of_yes_or_no(tmp_path: Path, truth: Any, read: str) -> None:
    row = SETS["TableVQA-Bench VTabFact"]["row"] | {"gt": truth}
    assert load(tmp_path, "TableVQA-Bench VTabFact", row).truth.answer == read


@pytest.mark.parametrize(
    ("name", "change", "problem"),
    [
        ("SuperCLEVR", {"ground_truth": "four"}, "'four' cannot be read as numeric"),
        ("SuperCLEVR", {"ground_truth": True}, "the answer True is neither"),
        ("SuperCLEVR", {"image_path": "../images/a.png"}, "image '../images/a.png'"),
        ("CLEVR-70k", {"solution": "<answer> 3"}, "tags that do not pair"),
        ("CLEVR-70k", {"solution": "<answer></answer>"}, "the answer is empty"),
        ("TableVQA-Bench VTabFact", {"gt": 2}, "'2' cannot be read as yes_no"),
        ("MathVision", {"answer": "F"}, "'F' is no option"),
        ("MMStar", {"image": {"bytes": None, "path": None}}, "an image is a NoneType"),
        ("V*", {"label": ""}, "the answer is empty"),
    ],
)
def test_wrong_rows(tmp_path: Path, name: str, change: dict[str, Any], problem: str) -> None:
    with pytest.raises(DataError, match=re.escape(problem)) as caught:
        load(tmp_path, name, SETS[name]["row"] | change)
    assert (caught.value.path, caught.value.row) == (str(tmp_path / "rows.jsonl"), 1)


def test_numbers_and_texts_in_one_file_are_told_apart_where_that_is_asked_for(tmp_path: Path) -> None:
    file = tmp_path / "rows.jsonl"
    answers = ["12", "3.5", "Yes", "2/3", "12 %"]
    file.write_text("\n".join(json.dumps({"question": "?", "answer": answer}) for answer in answers))
    words = ["reward=answer", "dataset=qa", f"dataset.path={file}", f"dataset.heldout_path={file}"]
    source = compose_run([*words, "dataset.image_key=null", "dataset.mixed=true"]).dataset.build(
        Split.HELDOUT
    )
    tasks = [source.sample(index).task for index in range(len(answers))]
    assert tasks == [Task.numeric, Task.numeric, Task.text, Task.text, Task.text]
    assert source.tasks() == {Task.numeric, Task.text}
    with pytest.raises(ConfigError, match=r"mixed: would be ignored: rows of task text"):
        compose_run([*words, "task=text", "dataset.mixed=true"]).dataset.build(Split.HELDOUT)
