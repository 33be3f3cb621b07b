"""The table of before and after."""

from __future__ import annotations

import pytest

from groundrl.tracking.comparison import cells, compare, text_table


def triple(value: float, half: float) -> dict[str, float]:
    return {"value": value, "low": value - half, "high": value + half}


def test_cells_of_a_full_comparison() -> None:
    rows = compare(
        {"acc": triple(0.3, 0.1), "old": 1.0},
        {"acc": triple(0.6, 0.1), "len": triple(40.0, 2.0)},
        {"acc": triple(0.3, 0.05), "len": triple(-1.0, 2.0)},
        {"clean parent": {"acc": 0.7}},
    )
    heading, body = cells(rows)
    assert heading == ["metric", "before", "after", "clean parent", "difference"]
    assert body == [
        ["acc", "0.300 [0.200, 0.400]", "0.600 [0.500, 0.700]", "0.700", "+0.300 [+0.250, +0.350] *"],
        ["len", "-", "40.0 [38.0, 42.0]", "-", "-1.000 [-3.000, +1.000]"],
        ["old", "1.000", "-", "-", "-"],
    ]


@pytest.mark.parametrize(
    ("low", "high", "clear"),
    [(0.1, 0.2, True), (-0.2, -0.1, True), (0.0, 0.2, False), (-0.2, 0.0, False), (-0.1, 0.1, False)],
)
def test_a_difference_is_clear_when_its_interval_excludes_zero(low: float, high: float, clear: bool) -> None:
    rows = compare({"a": 0.0}, {"a": 0.1}, {"a": {"value": 0.1, "low": low, "high": high}})
    assert rows[0].clear is clear


def test_a_difference_that_was_not_given_has_no_interval() -> None:
    row = compare({"a": triple(0.25, 0.01)}, {"a": triple(0.75, 0.01)})[0]
    assert row.difference == 0.5
    assert not row.clear


def test_only_one_evaluation() -> None:
    heading, body = cells(compare(None, {"a": 0.5}))
    assert (heading, body) == (["metric", "after"], [["a", "0.500"]])
    assert cells(compare(None, None)) == ([], [])
    assert cells(compare({}, {})) == ([], [])


def test_table_lines_are_aligned() -> None:
    assert text_table(["metric", "x"], [["a", "1"], ["longer name", "22"]]) == [
        "metric       x",
        "a            1",
        "longer name  22",
    ]


def test_a_table_too_wide_becomes_blocks() -> None:
    heading, body = ["metric", "before", "after"], [["acc", "0.1", "0.25"]]
    assert len(text_table(heading, body, 21)) == 2
    assert text_table(heading, body, 20) == ["acc", "  before  0.1", "  after   0.25"]
