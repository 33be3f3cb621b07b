"""The one label normalisation."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from groundrl.geometry.labels import normalise_label


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("Dog", "dog "),
        ("Caf\u00e9", "cafe\u0301"),
        ("traffic\n  light", " Traffic\u00a0Light"),
        ("STRASSE", "straße"),
        ("\u1fb3", "\u03b1\u0345"),
        ('a "red" car', 'A "Red"  car'),
    ],
)
def test_the_same_label(first, second) -> None:
    assert normalise_label(first) == normalise_label(second)


@pytest.mark.parametrize(("first", "second"), [("dog", "dogs"), ("cafe", "café"), ("a b", "ab"), ("①", "1")])
def test_different_labels(first, second) -> None:
    assert normalise_label(first) != normalise_label(second)


@given(st.text())
def test_idempotent_and_blind_to_canonical_form(text) -> None:
    once = normalise_label(text)
    assert normalise_label(once) == once
    assert normalise_label(unicodedata.normalize("NFD", text)) == once
