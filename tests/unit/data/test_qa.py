"""`dataset=qa`: options become letters, images may stand in the row, Parquet is optional."""

from __future__ import annotations

import base64
import io
import json
import sys
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from groundrl.data.base import Split
from groundrl.data.qa import QaConfig
from groundrl.data.rows import OnError, RowSamples
from groundrl.errors import ConfigError, DataError
from groundrl.types import ImagePart, Task, TextPart


def png(size: tuple[int, int], colour: tuple[int, int, int] = (9, 8, 7)) -> bytes:
    made = io.BytesIO()
    Image.new("RGB", size, colour).save(made, "PNG")
    return made.getvalue()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "a.png").write_bytes(png((40, 30)))
    return tmp_path


def load(folder: Path, *rows: Any, **settings: Any) -> RowSamples:
    file = folder / "q.jsonl"
    file.write_text("\n".join(json.dumps(row) for row in rows), encoding="utf-8")
    return QaConfig(path=str(file), heldout_path=str(file), **settings).build(Split.TRAIN)


def row(**more: Any) -> dict[str, Any]:
    return {"question": "Which?", "answer": 1, "image": "a.png"} | more


OPTIONS = ["cat", "dog", "3"]


@pytest.mark.parametrize(
    ("options", "truth", "letter"),
    [
        (OPTIONS, "B", "B"),
        (OPTIONS, "(b)", "B"),
        (OPTIONS, "Dog", "B"),
        (OPTIONS, 3, "C"),
        (["A. cat", "B. dog", "C. 3"], "dog", "B"),
        (["(A) cat", "(B) dog", "(C) 3"], "B", "B"),
        ({"A": "cat", "B": "dog", "C": "3"}, "cat", "A"),
    ],
)
def test_options_are_lettered_and_the_truth_is_a_letter(
    folder: Path, options: Any, truth: Any, letter: str
) -> None:
    sample = load(folder, row(options=options, answer=truth), options_key="options").sample(0)
    assert sample.question == "Which?\nA. cat\nB. dog\nC. 3"
    assert (sample.task, sample.truth.answer, sample.messages) == (Task.mcq, letter, ())


def test_options_that_are_only_letters_and_rows_without_any(folder: Path) -> None:
    rows = (row(options=["A", "B"], answer="B"), row(options=[], answer=4))
    source = load(folder, *rows, options_key="options")
    first, second = source.sample(0), source.sample(1)
    assert (first.question, first.truth.answer, first.task) == ("Which?\nA\nB", "B", Task.mcq)
    assert (second.question, second.truth.answer, second.task) == ("Which?", "4", Task.numeric)
    assert source.tasks() == {Task.mcq, Task.numeric}


@pytest.mark.parametrize(
    ("task", "answer", "read"),
    [
        (Task.numeric, ["14"], "14"),
        (Task.mcq, "C", "C"),
        (Task.yes_no, "No", "No"),
        (Task.text, "red", "red"),
    ],
)
def test_the_other_names_of_columns(folder: Path, task: Task, answer: Any, read: str) -> None:
    own = {"query": "Which?", "label": answer, "imgname": "a.png"}
    names = {"question_key": "query", "answer_key": "label", "image_key": "imgname"}
    sample = load(folder, own, task=task, **names).sample(0)
    assert (sample.task, sample.truth.answer, sample.images[0].size) == (task, read, (40, 30))


@pytest.mark.parametrize(
    "image",
    [
        base64.b64encode(png((21, 33))).decode(),
        "data:image/png;base64," + base64.b64encode(png((21, 33))).decode(),
        {"bytes": base64.b64encode(png((21, 33))).decode(), "path": "gone.png"},
        [base64.encodebytes(png((21, 33))).decode()],
    ],
)
def test_images_inside_the_row(folder: Path, image: Any) -> None:
    (opened,) = load(folder, row(image=image)).sample(0).images
    assert (opened.size, opened.getpixel((0, 0))) == ((21, 33), (9, 8, 7))


def test_long_paths_are_no_base64_and_absent_images_are_none(folder: Path) -> None:
    name = "f" * 80 + ".png"
    (folder / name).write_bytes(png((28, 29)))
    letters = "abcd" * 20  # valid base64 of no image
    (folder / letters).write_bytes(png((28, 31)))
    source = load(folder, row(image={"bytes": None, "path": name}), row(image=letters), row(image=None))
    assert [[i.size for i in source.sample(n).images] for n in range(3)] == [[(28, 29)], [(28, 31)], []]
    assert load(folder, row(image="no.png"), image_key=None).sample(0).images == ()


def test_marks_in_front_are_where_the_prompt_puts_images_and_others_stay(folder: Path) -> None:
    rows = (row(question="<image>\nWhich?"), row(question="Is <image> red?"))
    front, inside = (load(folder, *rows).sample(n) for n in range(2))
    assert (front.question, front.messages) == ("Which?", ())
    assert inside.messages[0].parts == (TextPart("Is "), ImagePart(0), TextPart(" red?"))
    with pytest.raises(DataError, match="2 <image> marks for 1 images"):
        load(folder, row(question="<image><image>Which?"))


@pytest.mark.parametrize(
    ("bad", "problem"),
    [
        ({"question": "?", "image": "a.png"}, "has no `answer`, only question, image; name the column"),
        (row(question=" "), "`question` is no text"),
        (row(question=5), "`question` is no text"),
        (row(answer=["1", "2"]), "neither a text nor a finite number"),
        (row(answer=None), "the answer None is neither"),
        (row(answer="many"), "cannot be read as numeric"),
        (row(image="https://host/a.png"), "is an address"),
        (row(image="gone.png"), "does not exist"),
        (row(image=7), "an image is a int"),
        (row(image={"bytes": None, "path": None}), "an image is a NoneType"),
        (row(image="data:image/png;base64,%%%"), "an image is no base64"),
        (row(options=OPTIONS, answer="D"), "'D' is no option; give one of A, B, C"),
        (row(options=OPTIONS, answer=1), "'1' is no option"),
        (row(options=["B", "A"], answer="A"), "is the letter A and the text of B"),
        (row(options=["cat"], answer="A"), "1 options, expected 2 to 26"),
        (row(options=["Cat", "cat "], answer="A"), "two options are the same"),
        (row(options="cat, dog", answer="A"), "options are no list"),
        (row(options={"A": "x", "C": "y"}, answer="A"), "options have the keys A, C"),
        ([1], "is a list, not an object"),
    ],
)
def test_bad_rows(folder: Path, bad: Any, problem: str) -> None:
    with pytest.raises(DataError) as caught:
        load(folder, row(), bad, options_key="options")
    assert problem in str(caught.value)
    assert (caught.value.path, caught.value.row) == (str(folder / "q.jsonl"), 2)
    assert len(load(folder, row(), bad, options_key="options", on_error=OnError.skip).rows) == 1


def test_broken_bytes_name_the_row(folder: Path) -> None:
    image = base64.b64encode(png((21, 33))[:60] + b"\0" * 40).decode()
    with pytest.raises(DataError, match=r"q\.jsonl, row 1: image 1 \(bytes\) cannot be read"):
        load(folder, row(image=image)).sample(0)


def test_settings_that_cannot_work(folder: Path) -> None:
    with pytest.raises(ConfigError, match=r"task: a question has no boxes"):
        load(folder, row(), task=Task.rec)
    (folder / "q.csv").write_text("question,answer")
    with pytest.raises(ConfigError, match="unknown ending"):
        QaConfig(path=str(folder / "q.csv")).build(Split.TRAIN)


def test_parquet_without_the_library_says_what_to_install(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "q.parquet").write_bytes(b"PAR1")
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(ConfigError, match=r"not installed.*pip install datasets"):
        QaConfig(path=str(folder / "q.parquet")).build(Split.TRAIN)


def test_parquet_images_stay_encoded_until_their_sample_is_asked_for(folder: Path, hf_offline: Any) -> None:
    rows = [
        row(
            question="<image>q0", image={"bytes": png((31, 32)), "path": None}, options=["a", "b"], answer="B"
        ),
        row(question="q1", image={"bytes": png((33, 34))[:60], "path": None}, options=[], answer="4"),
        row(question="q2", image=None, options=None, answer="5"),
    ]
    file = folder / "q.parquet"
    hf_offline.Dataset.from_list(rows).cast_column("image", hf_offline.Image()).to_parquet(str(file))
    config = QaConfig(path=str(file), heldout_path=str(file), options_key="options")
    source = config.build(Split.TRAIN)
    assert source.rows[0].images == (png((31, 32)),)
    first, third = source.sample(0), source.sample(2)
    assert (first.images[0].size, first.question, first.truth.answer) == ((31, 32), "q0\nA. a\nB. b", "B")
    assert (third.images, third.truth.answer, third.task) == ((), "5", Task.numeric)
    with pytest.raises(DataError, match=r"q\.parquet, row 2: image 1 \(bytes\) cannot be read"):
        source.sample(1)


def test_parquet_with_lists_of_images_is_not_decoded_either(folder: Path, hf_offline: Any) -> None:
    images = [{"bytes": png((31, 32)), "path": None}, {"bytes": png((35, 36)), "path": None}]
    features = hf_offline.Features(
        {
            "question": hf_offline.Value("string"),
            "answer": hf_offline.Value("int64"),
            "image": hf_offline.List(hf_offline.Image()),
        }
    )
    file = folder / "q.parquet"
    hf_offline.Dataset.from_list([row(image=images)], features=features).to_parquet(str(file))
    source = QaConfig(path=str(file), heldout_path=str(file)).build(Split.TRAIN)
    assert [image.size for image in source.sample(0).images] == [(31, 32), (35, 36)]


def test_wrong_rows_of_parquet_are_named_and_skipped(folder: Path, hf_offline: Any) -> None:
    file = folder / "q.parquet"
    hf_offline.Dataset.from_list([row(answer="1"), row(answer="many")]).to_parquet(str(file))
    config = QaConfig(path=str(file), heldout_path=str(file))
    with pytest.raises(DataError, match=r"q\.parquet, row 2: the answer 'many' cannot be read as numeric"):
        config.build(Split.TRAIN)
    config.on_error = OnError.skip
    assert config.build(Split.TRAIN).size == 1


def test_a_broken_parquet_file_is_a_data_error(folder: Path, hf_offline: Any) -> None:
    file = folder / "q.parquet"
    file.write_bytes(b"PAR1")
    with pytest.raises(DataError, match=r"q\.parquet: is no Parquet file \(Parquet"):
        QaConfig(path=str(file)).build(Split.TRAIN)
    hf_offline.Dataset.from_list([row(answer=str(n)) for n in range(2000)]).to_parquet(str(file))
    whole = file.read_bytes()
    file.write_bytes(whole[:20] + b"\xff" * 4000 + whole[4020:])  # the footer is good, the rows are not
    with pytest.raises(DataError, match=r"q\.parquet: is no Parquet file"):
        QaConfig(path=str(file)).build(Split.TRAIN)


def test_ids_and_splits_do_not_depend_on_the_order(folder: Path) -> None:
    rows = [row(question=f"q{n}", image=base64.b64encode(png((28, 28 + n))).decode()) for n in range(30)]
    file = folder / "s.jsonl"

    def held(order: list[Any]) -> set[str]:
        file.write_text("\n".join(json.dumps(one) for one in order), encoding="utf-8")
        return {one.id for one in QaConfig(path=str(file), heldout_every=3).build(Split.HELDOUT).rows}

    assert 0 < len(held(rows)) < 30
    assert held(rows[::-1]) == held(rows)
