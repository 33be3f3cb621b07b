"""Plots: what is drawn, in which bytes, and nothing where there is nothing."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree

import pytest
from tests.unit.tables.fake_experiment import TABLE, FakeExperiments, metrics, plan

from groundrl.reporting.experiments.folder import Results, read_experiment
from groundrl.reporting.figures import band, draw_figures, figure_name
from groundrl.reporting.tables.build import Choice, build_table
from groundrl.reporting.tables.table import Table

FIGURES = """figures:
  - {kind: curve, metric: reward/total}
  - {kind: scatter, x: coco/gr50, y: coco/ap}
  - {kind: bar, metric: coco/ap, title: AP by reward}
"""


def make(experiments: FakeExperiments) -> Table:
    return build_table(read_experiment(experiments.places, "x"), Results(experiments.places), plan, Choice())


def test_a_band_is_over_the_steps_that_all_seeds_have(experiments: FakeExperiments) -> None:
    experiments.write()
    experiments.add("ap", [0.1], curves={"r": [(1, 0.0), (2, 0.2), (3, 0.4)]})
    experiments.add("ap", [0.1], seeds=[1], curves={"r": [(1, 1.0), (3, 0.6)]})
    experiments.add("ap", [0.1], seeds=[2])
    found = band(make(experiments).runs["AP"], "r")
    assert list(found) == [1, 3]
    assert found[1] == pytest.approx((0.5, 0.0, 1.0))
    assert found[3] == pytest.approx((0.5, 0.4, 0.6))


def test_figures_are_svg_and_the_same_each_time(experiments: FakeExperiments) -> None:
    experiments.write(table=TABLE + FIGURES)
    for seed in range(3):
        experiments.add(
            "ap",
            [0.0],
            seeds=[seed],
            after=metrics({"coco/ap": 0.2 + seed / 10, "coco/gr50": 0.5}),
            curves={"reward/total": [(step, step / 10 + seed) for step in range(5)]},
        )
    drawn = draw_figures(make(experiments))
    assert list(drawn) == ["curve-reward-total.svg", "scatter-coco-gr50-coco-ap.svg", "bar-coco-ap.svg"]
    for content in drawn.values():
        assert ElementTree.fromstring(content).tag.endswith("svg")
    curve, scatter, bar = (content.decode() for content in drawn.values())
    assert ">AP<" in curve
    assert ">reward/total<" in curve
    assert ">coco/gr50<" in scatter
    assert ">AP by reward<" in bar
    assert "dc:date" not in curve
    assert draw_figures(make(experiments)) == drawn


def test_bars_of_equal_seeds_are_drawn(experiments: FakeExperiments) -> None:
    """Three times 5/97 have a mean above 5/97, by rounding."""
    experiments.write(table=TABLE + FIGURES)
    experiments.add("ap", [5 / 97] * 3)
    assert "bar-coco-ap.svg" in draw_figures(make(experiments))


def test_nothing_is_drawn_without_results(experiments: FakeExperiments) -> None:
    experiments.write(table=TABLE + FIGURES)
    assert draw_figures(make(experiments)) == {}
    experiments.add("ap", [0.2])  # no curve and no gr50: the bar alone
    assert list(draw_figures(make(experiments))) == ["bar-coco-ap.svg"]


def test_names_are_safe(experiments: FakeExperiments) -> None:
    experiments.write(table=TABLE + 'figures: [{kind: curve, metric: "../a b/{c}"}]\n')
    (figure,) = make(experiments).layout.figures
    assert figure_name(figure) == "curve-a-b-c.svg"
