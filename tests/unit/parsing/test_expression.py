"""Which texts may reach computer algebra."""

from __future__ import annotations

from itertools import chain

import pytest
from hypothesis import given
from hypothesis import strategies as st

from groundrl.parsing.expression import MAX_CHARS, cheap_to_compare, read_expression


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("x^2 + 1", "x^2 + 1"),
        ("$\\frac{1}{2}$", "\\frac{1}{2}"),
        ("\\boxed{12\\text{ cm}^2}", "12"),
        ("2*pi", "2*\\pi"),
        ("x**2", "x^2"),
        ("sqrt(sqrt(8))", "\\sqrt{\\sqrt{8}}"),
        ("90°", "90^{\\circ}"),
        ("50\\%", "50"),
        ("9^{999}", "9^{999}"),
        ("((9^9)^9)^9", "((9^9)^9)^9"),  # 9^729
        ("(x+1)^{1/2}", "(x+1)^{1/2}"),
    ],
)
def test_expression(text, expected) -> None:
    assert read_expression(text) == expected


@pytest.mark.parametrize(
    "text",
    list(
        chain(
            [
                "9^9^9^9",
                "9**9**9**9",
                "9^{9^{9^{9}}}",
                "9^{1000}",
                "9^(99*99)",
                "{9^{99}}^{99}",
                "(((9^9)^9)^9)^9",
            ],
            ["9^{99/0.01}", "9^{e^{9}}", "9^{\\frac{99}{0.01}}", "(a+b)^{13}", "99!", "\\sum_{i=1}^{9} i"],
            [
                "\\int x dx",
                "(99)_{9}",
                "10_{2}",
                "1e9",
                "9" * 16,
                "(" * 7 + "1" + ")" * 7,
                "(1",
                "1)",
                "x" * 201,
            ],
            [
                "a+b+c+d+f",
                "cat",
                "the answer is 5",
                "x=4=5",
                "__import__('os')",
                "\\input{a}",
                "\\operatorname{f}(x)",
            ],
            ["\\sin(" * 5 + "x" + ")" * 5, "", "...", "\\boxed{1}\\boxed{2}", "9^", "9^{9"],
        )
    ),
)
def test_no_cheap_expression(text) -> None:
    assert read_expression(text) is None


@pytest.mark.parametrize(
    ("first", "second", "cheap"),
    [
        ("\\log_2 8", "3", True),
        ("x\\log(x)^2", "3", False),
        ("\\log(13)", "9999999", False),  # log(13) - 9999999 may become the log of a quotient of powers
        ("\\ln 2", "7^{99}", False),
        ("\\ln 2", "x^{99}", True),
        ("\\sin(x)^2", "1-\\cos(x)^2", True),
        ("\\tan(x)", "(x+y)^{12}", False),
        ("\\sin(123456789)", "1", False),
        ("2^x", "2^{x}", True),
        ("2^x=5", "x=1", False),
        ("x<1", "2^{3n}<8", False),
        ("x^2=4", "x^2=2^2", True),
        ("2^{999}", "3^{999}", True),
    ],
)
def test_cheap_to_compare(first, second, cheap) -> None:
    assert cheap_to_compare(first, second) is cheap
    assert cheap_to_compare(second, first) is cheap


@given(st.text(alphabet=st.sampled_from("19xy^_{}()[]+-*/\\=<>,. $%\n\ud800é²"), max_size=80))
def test_any_text_is_read_or_refused(text) -> None:
    found = read_expression(text)
    assert found is None or (found.isascii() and 0 < len(found) <= 2 * MAX_CHARS)
