"""Cells: numbers, marks, and which runs count."""

from __future__ import annotations

import pytest
from tests.unit.tables.fake_experiment import TABLE, FakeExperiments, metrics, plan

from groundrl.errors import ConfigError
from groundrl.reporting.experiments.folder import Results, read_experiment
from groundrl.reporting.tables.build import Choice, MixedError, build_table
from groundrl.reporting.tables.cell import Cell
from groundrl.reporting.tables.table import Table, difference_text, measured_text

TWINS = {"model": ("qwen3b", "tiny")}


def make(experiments: FakeExperiments, id: str = "x", choice: Choice | None = None) -> Table:
    return build_table(
        read_experiment(experiments.places, id), Results(experiments.places), plan, choice or Choice()
    )


def only(table: Table) -> Cell:
    (cell,) = table.all_cells()
    return cell


def test_a_number_measured_as_published_is_ok(experiments: FakeExperiments) -> None:
    experiments.write()
    experiments.add("ap", [0.1, 0.2, 0.3])
    cell = only(make(experiments))
    assert (cell.status, cell.seeds, cell.missing) == ("ok", (0, 1, 2), None)
    # mean 20.0, interval over seeds 20 +- 24.84 (test_claims_math), published 21.1: difference -1.1
    assert measured_text(cell) == "20.0 [-4.8, 44.8]"
    assert cell.difference == pytest.approx(-1.1)
    assert difference_text(cell) == "-1.1"


def test_a_scale_with_stand_ins_gives_no_difference(experiments: FakeExperiments) -> None:
    experiments.write()
    experiments.add("ap", [0.1, 0.2, 0.3], scale="tiny", twins=TWINS)
    cell = only(make(experiments))
    assert (cell.status, cell.difference, cell.scale) == ("tiny", None, "tiny")
    experiments.add("ap", [0.1, 0.2, 0.3], scale="one_gpu")
    cell = only(make(experiments, choice=Choice(scale="one_gpu")))
    assert cell.status == "one_gpu"
    assert cell.difference == pytest.approx(-1.1)


def test_one_seed_shows_its_own_interval_and_says_so(experiments: FakeExperiments) -> None:
    experiments.write()
    experiments.add("ap", [0.2])
    cell = only(make(experiments))
    assert measured_text(cell) == "20.0 [15.0, 25.0] (1 seed)"
    assert cell.status == "partial"
    assert cell.notes == ("one seed: the interval is the run's own, over its scenes",)
    assert cell.missing is not None
    assert cell.missing.sweep == "make sweep ID=x SCALE=paper SEEDS=3"
    assert cell.missing.runs == (
        "python train.py experiment=x reward=ap seed=1",
        "python train.py experiment=x reward=ap seed=2",
    )


def test_a_start_measured_under_three_seeds_is_one_measurement(experiments: FakeExperiments) -> None:
    """Three equal numbers have no spread, but the number has one: that of its scenes."""
    experiments.write()
    nothing: dict[str, object] = {}
    experiments.add("ap", [0.1] * 3, steps=0, after=nothing, train_seconds=0.0)
    cell = only(make(experiments))
    assert measured_text(cell) == "10.0 [5.0, 15.0]"
    assert cell.status == "ok"
    why = "nothing was trained, so seeds do not differ: the interval is the run's own, over its scenes"
    assert cell.notes == (why,)
    experiments.write("y")
    experiments.add("ap", [0.1] * 3, id="y")  # trained, and equal by chance
    assert measured_text(only(make(experiments, "y"))) == "10.0 [10.0, 10.0]"


def test_a_changed_setting_is_drift_and_a_rerun_repairs_it(experiments: FakeExperiments) -> None:
    experiments.write()
    experiments.add("ap", [0.1, 0.2, 0.3], old_key="older")
    cell = only(make(experiments))
    assert (cell.status, cell.notes) == ("drift", ("other settings than today's in seed 0, 1, 2",))
    experiments.add("ap", [0.4, 0.4, 0.4])
    assert measured_text(only(make(experiments))) == "40.0 [40.0, 40.0]"
    experiments.add("ap", [0.9, 0.9, 0.9], old_key="older2")  # added later, but not of today
    cell = only(make(experiments))
    assert (cell.status, measured_text(cell)) == ("ok", "40.0 [40.0, 40.0]")


def test_of_two_old_runs_the_later_counts(experiments: FakeExperiments) -> None:
    experiments.write()
    experiments.add("ap", [0.1] * 3, old_key="old")
    experiments.add("ap", [0.2] * 3, old_key="newer")
    cell = only(make(experiments))
    assert (cell.status, measured_text(cell)) == ("drift", "20.0 [20.0, 20.0]")


def test_what_is_not_published_and_what_sources_dispute(experiments: FakeExperiments) -> None:
    table = TABLE.replace("published: map", "published: gp").replace(
        "rows:", "rows:\n  - {label: G, axes: {reward: giou}}"
    )
    experiments.write(table=table)
    experiments.add("ap", [0.6] * 3)
    experiments.add("giou", [0.6] * 3)
    unknown, conflict = make(experiments).all_cells()
    assert (unknown.status, unknown.published) == ("unknown", ())
    assert (conflict.status, conflict.difference) == ("conflict", None)
    assert [(entry.source, entry.value) for entry in conflict.published] == [
        ("paper", 67.34),
        ("blog", 57.57),
    ]


def test_a_number_written_as_unknown_is_unknown(experiments: FakeExperiments) -> None:
    experiments.write(
        table=TABLE.replace("{reward: ap}, published: ap", "{reward: odlength}, published: odlength")
    )
    experiments.add("odlength", [0.6] * 3)
    assert only(make(experiments)).status == "unknown"


def test_not_testable_holds_at_its_scale_alone(experiments: FakeExperiments) -> None:
    experiments.write(table=TABLE.replace("published: map", "published: map, not_testable: {tiny: no names}"))
    cell = only(make(experiments, choice=Choice(scale="tiny")))
    assert (cell.status, cell.missing) == ("not testable", None)
    assert cell.notes == ("not testable at tiny: no names",)
    assert only(make(experiments, choice=Choice(scale="paper"))).status == "missing"


def test_a_metric_that_no_run_has_is_missing_and_named(experiments: FakeExperiments) -> None:
    experiments.write(table=TABLE.replace("coco/ap", "coco/app"))
    experiments.add("ap", [0.1, 0.2, 0.3])
    cell = only(make(experiments))
    assert cell.status == "missing"
    assert cell.notes == ("no coco/app in seed 0, 1, 2; did you mean coco/ap?",)
    assert cell.missing is None  # the runs are there: running them again would not bring it


def test_before_training_and_runs_that_do_not_train(experiments: FakeExperiments) -> None:
    rows = (
        "rows:\n  - {label: start, axes: {reward: ap}, when: before}\n"
        "  - {label: base, axes: {reward: base}, from: y}"
    )
    experiments.write(table=TABLE.replace("rows:", rows))
    experiments.add("ap", [0.5] * 3, before=0.25)
    experiments.write("y")
    for seed in range(3):
        experiments.add(
            "ap", [0.0], seeds=[seed], id="y", axes={"reward": "base"}, after={}, steps=0, before=0.35
        )
    with pytest.raises(
        ConfigError, match="rows\\[1\\]\\.axes: the sweep y has no reward=base; values: ap, ap50"
    ):
        make(experiments)
    rows = rows.replace("reward: base", "reward: giou")
    experiments.write(table=TABLE.replace("rows:", rows))
    experiments.add("giou", [0.0] * 3, id="y", after={}, steps=0, before=0.35)
    start, base, after = make(experiments).all_cells()
    assert [cell.measured.value for cell in (start, base, after) if cell.measured] == pytest.approx(
        [25, 35, 50]
    )
    assert make(experiments).runs["base"].source == "y"


def test_columns_by_step_and_by_onset(experiments: FakeExperiments) -> None:
    columns = """columns:
  - {label: "0", metric: coco/ap, unit: share, at: 0}
  - {label: "1/2", metric: coco/ap, unit: share, at: 0.5}
  - {label: "3/4", metric: coco/ap, unit: share, at: 0.75}
  - {label: "1", metric: coco/ap, unit: share, at: 1}
  - {label: rise, metric: onset(reward/total), unit: steps}
  - {label: reward, metric: reward/total, unit: share}
"""
    experiments.write(table=TABLE.partition("columns:")[0] + columns)
    reward = [(step, 0.0 if step < 40 else 1.0) for step in range(80)]
    curves = {"coco/ap": [(0, 0.9), (42, 0.2), (80, 0.9)], "reward/total": reward}
    experiments.add("ap", [0.5] * 2, before=0.1, curves=curves)
    experiments.add(
        "ap", [0.5], seeds=[2], before=0.1, curves={**curves, "reward/total": [(s, 0.5) for s in range(80)]}
    )
    cells = make(experiments).all_cells()
    # the ends are the evaluations; half of 80 steps is 40, nearest 42 (2 off, 4 allowed); 60 has none near
    assert [cell.measured and round(cell.measured.value, 3) for cell in cells[:4]] == [0.1, 0.2, None, 0.5]
    assert cells[2].status == "missing, unknown"
    # rises at 40, 40 and never: that run counts with its 80 steps, and this is said
    assert cells[4].measured is not None
    assert cells[4].measured.value == pytest.approx(160 / 3)
    assert cells[4].notes == ("no rise in seed 2, counted with the length of the run",)
    # a metric of training alone: mean of the last tenth, 1, 1 and 0.5
    assert cells[5].measured is not None
    assert cells[5].measured.value == pytest.approx(2.5 / 3)


def test_an_evaluation_that_is_gone_is_not_taken_from_the_curve(experiments: FakeExperiments) -> None:
    experiments.write()
    experiments.add("ap", [0.5] * 3, after=metrics({"other/ap": 0.5}), curves={"coco/ap": [(80, 0.7)]})
    assert only(make(experiments)).status == "missing"


def test_units_of_source_and_column(experiments: FakeExperiments) -> None:
    experiments.write(table=TABLE.replace("unit: percent", "unit: share"))
    experiments.add("ap", [0.2] * 3)
    cell = only(make(experiments))
    assert cell.published[0].value == pytest.approx(0.211)
    assert cell.difference == pytest.approx(-0.011)


def test_mixed_results_are_refused_unless_allowed(experiments: FakeExperiments) -> None:
    table = TABLE.replace("rows:", "rows:\n  - {label: G, axes: {reward: giou}}")
    experiments.write(table=table)
    experiments.add("ap", [0.5] * 3)
    experiments.add("giou", [0.5] * 3, commit="b" * 40)
    with pytest.raises(
        MixedError, match=r"results of several commits: aaaaaaaaaa \(AP\); bbbbbbbbbb \(G\); run the"
    ):
        make(experiments)
    (note,) = make(experiments, choice=Choice(mixed=True)).notes
    assert note.endswith("bbbbbbbbbb (G): allowed when the table was made")
    experiments.write(table=table + "allow_mixed: {commits: only docs differ}\n")
    assert make(experiments).notes[0].endswith("(G): only docs differ")
    experiments.add("giou", [0.4] * 3, scale="tiny", twins=TWINS)
    with pytest.raises(
        MixedError, match=r"results of several scales: paper, tiny; choose one with SCALE=NAME"
    ):
        make(experiments)
    both = make(experiments, choice=Choice(mixed=True))
    assert [cell.scale for cell in both.all_cells()] == ["paper", "paper"]
    tiny = make(experiments, choice=Choice(scale="tiny"))
    assert [cell.status for cell in tiny.all_cells()] == ["tiny, unknown", "missing"]


def test_uncommitted_changes_are_told_but_are_no_other_commit(experiments: FakeExperiments) -> None:
    experiments.write()
    experiments.add("ap", [0.5], commit="a" * 40)
    experiments.add("ap", [0.5, 0.5], seeds=[1, 2], commit="a" * 40 + "+changes")
    facts = dict(make(experiments).origin.facts)
    assert facts["commits"] == "aaaaaaaaaa"
    assert facts["uncommitted changes"] == "in the checkout of 2 of 3 runs"
    assert (facts["seeds"], facts["finished"], facts["training time"]) == (
        "0, 1, 2",
        "2026-12-01 to 2026-12-03",
        "5m00s",
    )
