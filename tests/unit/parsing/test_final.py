"""Final answers: what is read, as what, and what is refused."""

from __future__ import annotations

from itertools import chain

import pytest
from hypothesis import given
from hypothesis import strategies as st

from groundrl.parsing.final import FinalReading, read_final
from groundrl.parsing.number import Number, read_number
from groundrl.parsing.status import ParseStatus
from groundrl.types import Task

BIG = 2_000_000


def value(text, task) -> str | None:
    """The canonical value; the status must say the same."""
    reading = read_final(text, task)
    assert (reading.status is ParseStatus.OK) == (reading.value is not None)
    if reading.value is None:
        assert reading.status is ParseStatus.UNREADABLE
    return reading.value


@pytest.mark.parametrize(
    "text",
    list(
        chain(
            ["yes", "YES", "Yes.", "**Yes**", "'yes'", "_yes_", "\\boxed{Yes}", "\\boxed{\\text{yes}}"],
            ["Yes, because there is no cat", "Yes! It is.", "The answer is yes.", "I would say: yes, yes"],
        )
    ),
)
def test_yes(text) -> None:
    assert value(text, Task.yes_no) == "yes"


@pytest.mark.parametrize("text", ["no", "No.", "NO!", "No, it is not.", "There is no cat", "nO\n"])
def test_no(text) -> None:
    assert value(text, Task.yes_no) == "no"


@pytest.mark.parametrize(
    "text",
    list(
        chain(
            [
                "maybe",
                "know",
                "not",
                "I know that it is not",
                "nope",
                "yesterday",
                "no-one",
                "noyes",
                "?",
                "0",
            ],
            [
                "yes or no",
                "yes/no",
                "no, yes",
                "yes and no",
                "There is no cat, so yes",
                "\\boxed{yes} \\boxed{no}",
            ],
            ["\\boxed{yes", "\\boxed yes"],
        )
    ),
)
def test_neither_yes_nor_no(text) -> None:
    assert value(text, Task.yes_no) is None


@pytest.mark.parametrize(
    "text",
    list(
        chain(
            [
                "B",
                "b",
                "(B)",
                "(b)",
                "[B]",
                "B.",
                "B)",
                "B) cat",
                "(B) cat",
                "B. cat",
                "B: cat",
                "B - cat",
                "B, since",
            ],
            [
                "B\nIt is a cat.",
                "**B**",
                "**B)** cat",
                "**B**: cat",
                "`B`",
                "$B$",
                "\\boxed{B}",
                "\\boxed{\\text{B}}",
            ],
            [
                "so \\boxed{B} it is",
                "Option B",
                "option (b)",
                "Choice B.",
                "Option B is correct",
                "Option B cat",
            ],
            ["The answer is B", "The correct answer is (B) cat.", "Answer: B", "the answer is: **B**"],
            [
                "Therefore, the answer is option B",
                "B is correct",
                "B is the answer",
                "B) A cat",
                "B) a cat and a dog",
            ],
        )
    ),
)
def test_choice_letter(text) -> None:
    assert value(text, Task.mcq) == "B"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Apple", "Apple"),
        ("A cat", "A cat"),  # the article, not option A
        ("a cat", "a cat"),
        ("cat.", "cat"),
        ("The answer is A cat", "A cat"),
        ("The answer is cat.", "cat"),
        ("AB", "AB"),
        ("Choice cuts", "Choice cuts"),
        ("e.g. cat", "e.g. cat"),
        ("I think B", "I think B"),
        ("vitamin A", "vitamin A"),
        ("Б", "Б"),
        ("cat\ud800", "cat?"),
    ],
)
def test_option_text(text, expected) -> None:
    assert value(text, Task.mcq) == expected


@pytest.mark.parametrize(
    "text",
    list(
        chain(
            [
                "A or B",
                "a or b",
                "A, B",
                "A/B",
                "A and B",
                "A) or B)",
                "(A) (B)",
                "A. cat B. dog",
                "A. cat\nB. dog",
            ],
            [
                "Option A or B",
                "The answer is (A) or (B)",
                "Both A and B",
                "(b) cat and (c) dog",
                "A, B and a cat",
            ],
            [".", "**", "\\boxed{A}\\boxed{B}", "x" * 1001],
        )
    ),
)
def test_no_single_choice(text) -> None:
    assert value(text, Task.mcq) is None


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("12", "12"),
        ("12.", "12"),
        ("12.0", "12"),
        ("007", "7"),
        ("+3", "3"),
        ("-12", "-12"),
        ("−12", "-12"),
        ("-0", "0"),
        (".5", "0.5"),
        ("0.10", "0.1"),
        ("1,234.5", "1234.5"),
        ("12,345,678", "12345678"),
        ("1{,}234", "1234"),
        ("$12", "12"),
        ("-$12", "-12"),
        ("\\$12", "12"),
        ("12€", "12"),
        ("1e5", "100000"),
        ("1.5e-3", "0.0015"),
        ("1.5 \\times 10^{3}", "1500"),
        ("1.5 x 10^3", "1500"),
        ("2e20", "2e+20"),
        ("3/4", "0.75"),
        ("\\frac{3}{4}", "0.75"),
        ("-\\dfrac{3}{4}", "-0.75"),
        ("12 cm", "12"),
        ("12cm", "12"),
        ("12 cm^2", "12"),
        ("12 m²", "12"),
        ("5 km/h", "5"),
        ("12 \\text{ cm}", "12"),
        ("90^\\circ", "90"),
        ("90°", "90"),
        ("x = 12", "12"),
        ("= 12", "12"),
        ("\\boxed{12}", "12"),
        ("step 1, step 2: \\boxed{12}", "12"),
        ("**12**", "12"),
        ("\\(12\\)", "12"),
        ("about 12 dogs", "12"),
        ("H2O: 12", "12"),
        ("item-5", "5"),
    ],
)
def test_number(text, expected) -> None:
    assert value(text, Task.numeric) == expected


@pytest.mark.parametrize(
    "text",
    list(
        chain(
            ["twelve", "nan", "inf", "-inf", "∞", "1e999", "9" * 65, "1/0", "3/0.0", "١٢", "5²", "½"],
            ["5 of 10", "3-5", "1.2.3", "12:30", "12,34", "1234,567", "0,500", "1 234", "12, 13", "12 or 12"],
            [
                "3 1/2",
                "2\\frac{1}{2}",
                "\\frac{3}{4}5",
                "1/2/3",
                "12^2",
                "2*3",
                "2+2",
                "3 + 4 = 7",
                "x/5",
                "5/x",
            ],
            ["\\sqrt{5}", "2\\pi", "2π", "\\pm 5", "±5", "> 5", "\\boxed{1}\\boxed{1}", "1.5e3 x 10^2"],
            ["10^999999999999"],
        )
    ),
)
def test_no_single_number(text) -> None:
    assert value(text, Task.numeric) is None


def test_percent_is_a_flag_and_not_a_factor() -> None:
    assert read_number("12%") == Number(value="12", percent=True)
    assert read_number("12 \\%") == read_number("12 percent") == Number(value="12", percent=True)
    assert read_number("12 percentiles") == read_number("12") == Number(value="12", percent=False)


@pytest.mark.parametrize("task", [Task.text, Task.region_label])
def test_text_is_the_body_without_what_cannot_be_stored(task) -> None:
    assert value("A or B.", task) == "A or B."
    assert value("a\ud800b", task) == "a?b"


@pytest.mark.parametrize("task", [Task.mcq, Task.yes_no, Task.numeric, Task.text, Task.region_label])
@pytest.mark.parametrize("text", ["", "  \n"])
def test_empty(task, text) -> None:
    assert read_final(text, task) == FinalReading(status=ParseStatus.EMPTY)


@pytest.mark.parametrize("task", [Task.mcq, Task.yes_no, Task.numeric])
@pytest.mark.parametrize(
    "unit",
    [
        "9",
        "1 ",
        "-",
        "*",
        "\\boxed{",
        "\\frac{1}{",
        "know ",
        "a-",
        "1,234",
        "(A",
        "1 x 10^{          ",
        "\x00",
    ],
)
def test_two_megabytes_of_anything(task, unit) -> None:
    assert read_final(unit * (BIG // len(unit)), task).status is ParseStatus.UNREADABLE


@given(st.text(alphabet=st.sampled_from("ABab()[]{}.,:;*_-+/\\$%^=<> \n019xyesno½²٣é\ud800"), max_size=60))
def test_any_text_is_read_or_refused(text) -> None:
    for task in (Task.mcq, Task.yes_no, Task.numeric, Task.text, Task.region_label):
        reading = read_final(text, task)
        assert (reading.status is ParseStatus.OK) == (reading.value is not None)
        if reading.value is not None and (task is not Task.mcq or len(reading.value) == 1):
            assert read_final(reading.value, task).value == reading.value  # canonical: reads back as itself
