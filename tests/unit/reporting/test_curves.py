"""Scales, ticks and marks of the charts."""

from __future__ import annotations

import json
import math
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from groundrl.reporting.curves import line_chart, share_bar, stacked_chart
from groundrl.reporting.series import Series, collect, smooth, thin
from groundrl.reporting.svg import Scale, domain, tag, tick_label, ticks


def series(ys: list[float | None], name: str = "a") -> Series:
    return Series(name=name, xs=[float(index) for index in range(len(ys))], ys=ys)


def test_tag_escapes_text_and_attributes() -> None:
    made = tag("text", '<b>&"', class_='x" onload="y', x=1.25, font_size=3.0, hidden=True, id=None)
    assert (
        made == '<text class="x&#34; onload=&#34;y" x="1.2" font-size="3" hidden>&lt;b&gt;&amp;&#34;</text>'
    )
    assert tag("g", tag("rect", x=1.0)) == '<g><rect x="1"></rect></g>'


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [
        (0.0, 1.0, [0, 0.25, 0.5, 0.75, 1.0]),
        (0.0, 240.0, [0, 100, 200]),
        (-0.03, 0.04, [-0.02, 0.0, 0.02, 0.04]),
        (3.0, 3.0, [3.0]),
    ],
)
def test_ticks(low: float, high: float, expected: list[float]) -> None:
    assert ticks(low, high) == pytest.approx(expected)


@given(st.floats(-1e6, 1e6), st.floats(1e-6, 1e6))
def test_ticks_lie_inside_and_are_few(low: float, span: float) -> None:
    made = ticks(low, low + span)
    assert 1 <= len(made) <= 6
    assert all(low - 1e-6 * span <= value <= low + span * (1 + 1e-6) for value in made)


@pytest.mark.parametrize(
    ("value", "step", "text"),
    [
        (0.25, 0.25, "0.25"), (0.5, 0.25, "0.50"), (0.0, 0.25, "0"), (150.0, 50.0, "150"),
        (2500.0, 500.0, "2500"), (12_500.0, 2500.0, "12.5k"), (2e6, 1e6, "2M"),
        (2.5e-6, 2.5e-6, "2.5e-6"), (1e-5, 1e-5, "1e-5"),
        (1.75, 0.25, "1.75"), (2.5, 2.5, "2.5"),
    ],
)  # fmt: skip
def test_tick_labels(value: float, step: float, text: str) -> None:
    assert tick_label(value, step) == text


def test_domain_of_shares_is_the_unit_interval() -> None:
    assert domain([0.1, 0.9]) == (0.0, 1.0, None)


def test_domain_starts_at_zero_unless_the_level_is_high() -> None:
    assert domain([0.01, 0.02])[0] == 0.0
    low, high, _ = domain([610.0, 640.0])
    assert 600 < low < 610 < 640 < high
    assert domain([-1.0, 1.0])[:2] == pytest.approx((-1.12, 1.12))
    assert domain([]) == (0.0, 1.0, None)
    assert domain([5.0, 5.0])[0] < 5.0 < domain([5.0, 5.0])[1]
    assert domain([0.0, 0.0])[:2] == (0.0, 1.0)


def test_one_wild_value_does_not_flatten_the_curve() -> None:
    low, high, cut = domain([1 + index / 100 for index in range(100)] + [5000.0])
    assert (low, cut) == (0.0, 5000.0)
    assert high < 3
    ys: list[float | None] = [*(1.0 + index / 100 for index in range(100)), 5000.0]
    chart = line_chart("Gradient norm", "", [series(ys)])
    assert chart.note == "axis cut: one value is 5000"


def test_scale_maps_ends_and_survives_an_empty_range() -> None:
    scale = Scale(low=2.0, high=4.0, start=10.0, end=30.0)
    assert [scale(2.0), scale(3.0), scale(4.0)] == [10.0, 20.0, 30.0]
    assert math.isfinite(Scale(low=1.0, high=1.0, start=0.0, end=1.0)(1.0))


def test_a_line_is_interrupted_where_a_value_is_missing() -> None:
    chart = line_chart("A", "", [series([0.1, 0.2, None, 0.4, 0.9])])
    paths = re.findall(r'<path class="line c0" d="([^"]*)"', chart.svg)
    assert len(paths) == 1
    assert paths[0].count("M") == 2
    assert chart.svg.count("<circle") == 4


def test_a_single_point_is_visible() -> None:
    chart = line_chart("A", "", [series([0.5])])
    assert "h0" in chart.svg
    assert "<circle" in chart.svg
    assert "nan" not in chart.svg


def test_data_for_the_pointer() -> None:
    chart = line_chart("A", "s", [series([0.123456, None], "x"), series([2.0, 3.0], "y")])
    data = json.loads(chart.data)
    assert data["series"] == [{"x": [0, 1], "y": [0.1235, None]}, {"x": [0, 1], "y": [2, 3]}]
    assert chart.legend == [("c0", "x", "0.123"), ("c1", "y", "3.000")]


def test_an_interval_is_a_band_with_a_line_for_the_first_value() -> None:
    band = Series(name="a", xs=[0.0, 5.0], ys=[0.2, 0.6], band=[(0.1, 0.3), (0.5, 0.7)])
    svg = line_chart("A", "", [band]).svg
    assert svg.count('class="band c0"') == 1
    assert svg.count('class="start"') == 1


def test_stacked_areas_lie_on_each_other() -> None:
    svg = stacked_chart("T", "s", [series([1.0, 1.0], "a"), series([3.0, 3.0], "b")]).svg
    bottom, top = re.findall(r'<path class="area c\d" d="M([^"]*)Z"', svg)
    edges = [[float(point.split()[1]) for point in path.split("L")] for path in (bottom, top)]
    assert edges[0][2:] == [182.0, 182.0]
    assert edges[1][2:] == edges[0][:2][::-1]
    heights = edges[0][2] - edges[0][0], edges[1][2] - edges[1][0]
    assert heights[1] == pytest.approx(3 * heights[0], abs=0.4)


def test_many_points_are_thinned_to_means() -> None:
    long = series([float(index) for index in range(1000)])
    short = thin(long, 100)
    assert len(short.xs) == len(short.ys) == 100
    assert (short.xs[0], short.ys[0]) == (9.0, 4.5)
    assert (short.xs[-1], short.ys[-1]) == (999.0, 994.5)
    assert thin(series([1.0, 2.0])).ys == [1.0, 2.0]


def test_smoothing_is_a_centred_mean_that_skips_gaps() -> None:
    assert smooth(series([1.0] * 29)) is None
    ys: list[float | None] = [0.0, 3.0, None, 3.0, *[0.0] * 40]
    smoothed = smooth(series(ys))
    assert smoothed
    assert smoothed.ys[:5] == [1.5, 1.5, None, 1.5, 1.0]


def test_collect_leaves_out_what_has_no_value() -> None:
    rows = [(1, {"a": 1.0, "b": None}), (3, {"a": None, "b": None, "c": 2.0})]
    found = collect(rows, {"a": "A", "b": "B", "c": "C", "d": "D"})
    assert [(entry.name, list(entry.xs), list(entry.ys)) for entry in found] == [
        ("A", [1.0, 3.0], [1.0, None]),
        ("C", [3.0], [2.0]),
    ]
    assert found[0].last == 1.0


def test_share_bar_fills_the_whole() -> None:
    assert share_bar([("rollout", 3.0), ("other", 1.0)]) == [
        ("c0", "rollout", 0.0, 75.0),
        ("cn", "other", 75.0, 25.0),
    ]
    assert share_bar([("a", 0.0)]) == [("c0", "a", 0.0, 0.0)]
