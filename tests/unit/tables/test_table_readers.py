"""Mistakes in table.yaml, expected.yaml and claims.yaml are named: file, key, what is there, what to do."""

from __future__ import annotations

import pytest
from tests.unit.tables.fake_experiment import EXPECTED, TABLE, FakeExperiments, plan

from groundrl.errors import UserError
from groundrl.reporting.experiments.claim_file import Side
from groundrl.reporting.experiments.folder import Results, check_axes, read_experiment
from groundrl.reporting.tables.build import Choice, build_table

CLAIMS = """
scale: tiny
seeds: [0, 1, 2]
steps: 80
alpha: 0.05
samples: 1024
claims:
  - id: c1
    text: AP beats AP50
    source: A paper
    tests:
      - {name: above, metric: coco/ap, a: {reward: ap}, b: {reward: ap50, from: y}, direction: greater}
      - {name: up, metric: coco/ap, a: {reward: ap}, b: before, direction: greater, at: 0.5}
  - {id: c2, text: Names are named, source: A paper, not_testable: no names here}
"""


def test_claims_are_read(experiments: FakeExperiments) -> None:
    experiments.write(claims=CLAIMS)
    claims = read_experiment(experiments.places, "x").claims
    assert claims is not None
    first, second = claims.tests()
    assert first.b == Side(source="y", axes={"reward": "ap50"})
    assert (first.a.source, second.b, second.at) == ("x", None, 0.5)
    assert (claims.claims[1].not_testable, claims.claims[1].tests) == ("no names here", ())


def test_values_are_read_as_the_sweep_writes_them(experiments: FakeExperiments) -> None:
    experiments.write(table=TABLE.replace("{reward: ap}", "{a: true, b: 0.5, c: null, d: none, e: 3}"))
    axes = read_experiment(experiments.places, "x").layout.rows[0].axes
    assert axes == {"a": "True", "b": "0.5", "c": "null", "d": "none", "e": "3"}


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("title: Which", "titel: Which", "titel: unknown key; did you mean title? keys: "),
        ("question: Does a price on boxes help?", "", "table.yaml: has no question; add"),
        ("axes: {reward: ap}", "axis: {reward: ap}", "rows[0].axis: unknown key; did you mean axes?"),
        ("{reward: ap}", "{rewrad: ap}", "rows[0].axes: is no axis of the sweep, got 'rewrad'; axes of"),
        ("{reward: ap}", "{reward: app}", "rows[0].axes: the sweep x has no reward=app; values: ap"),
        ("{reward: ap}", "{}", "rows[0].axes: leaves the axis reward open; add reward: one of ap, ap50"),
        ("{reward: ap}", "[ap]", "rows[0].axes: must be a mapping, got ['ap']"),
        ("{reward: ap}", "{reward: [ap]}", "rows[0].axes.reward: must be one value, got ['ap']"),
        ("unit: percent", "unit: percents", "columns[0].unit: is not known, got 'percents'; did"),
        ("published: map", "published: mpa", "columns[0].published: is not known, got 'mpa'; did you"),
        ("published: ap}", "published: app}", "rows[0].published: is not known, got 'app'; did"),
        ("coco/ap", '"{benchmark}/ap"', "rows[0]: has no benchmark; the column's metric {"),
        ("published: map", "at: 2", "columns[0].at: must be a fraction of the run's steps, 0 to 1, got 2"),
        ("columns:\n", "columns: []\nfigures:\n", "columns: is empty; a table needs one or more"),
        ("rows:\n", "rows:\n  - {label: AP, axes: {reward: giou}}\n", "rows: has a label twice, got 'AP'"),
        ("rows:\n", "figures: [{kind: pie, metric: a}]\nrows:\n", "figures[0].kind: is not known, got"),
        ("rows:\n", "figures: [{kind: scatter, metric: a}]\nrows:\n", "figures[0].metric: unknown key"),
        ("rows:\n", "allow_mixed: {commit: x}\nrows:\n", "allow_mixed.commit: unknown key; did you mean"),
        ("title: Which reward", "title: Which reward\ntitle: B", "'title' stands twice"),
    ],
)  # fmt: skip
def test_mistakes_in_table_yaml(experiments: FakeExperiments, old: str, new: str, message: str) -> None:
    assert old in TABLE
    experiments.write(table=TABLE.replace(old, new))
    with pytest.raises(UserError) as found:
        build_table(read_experiment(experiments.places, "x"), Results(experiments.places), plan, Choice())
    assert "experiments/x/table.yaml" in str(found.value)
    assert message in str(found.value)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("use: paper", "use: papers", "use: is not known, got 'papers'; did you mean paper? there"),
        ("use: paper", "use: [paper, b]", "use[1]: is not known, got 'b'"),
        ("quality: exact", "quality: good", "sources.paper.quality: is not known, got 'good'"),
        ("map: 11.4", "map: eleven", "values.paper.ap50.map: must be a number, got 'eleven'"),
        ("map: 11.4", "map: .nan", "values.paper.ap50.map: must be a number, got nan"),
        ("  blog: {ap:", "  block: {ap:", "values.block: is no source, got 'block'; sources:"),
        ("{blog: 57.57, paper: 67.34}", "{blog: 57.57}", "conflicts[0].values: needs two sources"),
        ("{blog: 57.57, paper", "{bog: 57.57, paper", "conflicts[0].values.bog: is no source"),
    ],
)  # fmt: skip
def test_mistakes_in_expected_yaml(experiments: FakeExperiments, old: str, new: str, message: str) -> None:
    assert old in EXPECTED
    experiments.write(expected=EXPECTED.replace(old, new))
    with pytest.raises(UserError) as found:
        read_experiment(experiments.places, "x")
    assert f"experiments/x/expected.yaml: {message}" in str(found.value)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("seeds: [0, 1, 2]", "seeds: [0, 1]", "seeds: must be three or more different seeds, got [0, 1]"),
        ("seeds: [0, 1, 2]", "seeds: [0, 1, 1]", "seeds: must be three or more different seeds"),
        ("alpha: 0.05", "alpha: 5", "alpha: must lie between 0 and 0.5, got 5.0"),
        ("steps: 80", "steps: 80.5", "steps: must be a whole number, 0 or more, got 80.5"),
        ("direction: greater}", "direction: up}", "claims[0].tests[0].direction: is not known"),
        (", not_testable: no names here", "", "claims[1]: needs either tests or not_testable"),
        ("id: c2", "id: c1", "claims: has an id twice, got 'c1'"),
        ("b: {reward: ap50, from: y}", "b: after", "claims[0].tests[0].b: must be a mapping, got"),
    ],
)  # fmt: skip
def test_mistakes_in_claims_yaml(experiments: FakeExperiments, old: str, new: str, message: str) -> None:
    assert old in CLAIMS
    experiments.write(claims=CLAIMS.replace(old, new))
    with pytest.raises(UserError) as found:
        read_experiment(experiments.places, "x")
    assert f"experiments/x/claims.yaml: {message}" in str(found.value)


def test_axes_of_claims_are_checked(experiments: FakeExperiments) -> None:
    experiments.write(claims=CLAIMS.replace("{reward: ap50, from: y}", "{reward: ap5, from: y}"))
    with pytest.raises(
        UserError, match=r"claims.yaml: claims\[0\].tests\[0\].b: the sweep y has no reward=ap5"
    ):
        check_axes(read_experiment(experiments.places, "x"), plan, "tiny")


def test_an_experiment_without_a_table(experiments: FakeExperiments) -> None:
    with pytest.raises(UserError, match=r"x/table\.yaml: is not there"):
        read_experiment(experiments.places, "x")
