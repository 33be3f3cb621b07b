"""Published numbers agree with each other where they should, and with the tables that show them."""

from __future__ import annotations

import math
from typing import Any

import pytest
from tests.compose.experiment_files import IDS, experiment

from groundrl.evaluation.ovdeval import ASPECTS, aspect_weights

QUALITIES = ("exact", "chart_label", "by_eye")
SOURCE_KEYS = {"what", "quality", "unit"}
BREAKS_THE_RULE = {("vlmr1_t3_t4", "grounding_dino"): 29.72}
"""The row whose printed overall (25.30) is not the mean of five aspects, and what that mean is."""
DIFFERENCES = {
    ("vlmr1_t3_t4", "delta_rl_minus_sft"): ("rl_3b", "sft_3b"),
    ("ovdblog_small", "delta_small_minus_single"): ("small", "single"),
    ("ovdblog_task_mix", "delta_detection_minus_mixed"): ("detection", "mixed"),
}
"""Published differences and the rows they are between."""


def rows(id: str) -> list[tuple[str, str, dict[str, Any]]]:
    """(source, row, numbers) of all that is published for an experiment."""
    values = experiment(id, "expected")["values"]
    return [(source, name, row) for source, own in values.items() for name, row in own.items()]


def overall(row: dict[str, float]) -> float:
    """The mean of the five aspects' means."""
    names = [name for parts in ASPECTS.values() for name in parts]
    weights = aspect_weights(names)["overall"]
    return math.fsum(weight * row[name] for weight, name in zip(weights, names, strict=True))


def test_the_rule_by_hand() -> None:
    """Base 3B: 20.333 of (13.2, 26.5, 21.3), 7.25 of (2.9, 11.6), 47.9, 13.1 and 38.7 have mean 25.457."""
    row = {"celebrity": 13.2, "logo": 26.5, "landmark": 21.3, "color": 2.9, "material": 11.6}
    row |= {"position": 47.9, "relationship": 13.1, "negation": 38.7}
    assert overall(row) == pytest.approx(25.4567, abs=1e-4)


def test_overall_is_the_mean_of_the_aspects() -> None:
    seen: set[tuple[float, float]] = set()
    for id in IDS:
        for source, name, row in rows(id):
            if "celebrity" not in row or name.startswith("delta_"):
                continue
            mean = BREAKS_THE_RULE.get((id, name), row["overall"])
            assert overall(row) == pytest.approx(mean, abs=0.0101), (id, source, name)
            seen.add((row["overall"], row["celebrity"]))
    assert len(seen) == 12  # as many different rows as Tables 4 to 7 have


def test_the_mean_of_7_2_is_over_its_aspects() -> None:
    for _, name, row in rows("ovdblog_scale"):
        mean = math.fsum(row[aspect] for aspect in ASPECTS) / 5
        assert row["avg"] == pytest.approx(mean, abs=0.0101), name


def test_published_differences_are_those_of_the_rows() -> None:
    for (id, name), (first, second) in DIFFERENCES.items():
        source, row = next((source, row) for source, own, row in rows(id) if own == name)
        values = experiment(id, "expected")["values"][source]
        for column, difference in row.items():
            # to a hundredth: the numbers themselves are rounded
            assert values[first][column] - values[second][column] == pytest.approx(difference, abs=0.0101)


def test_figure_5_is_the_mean_of_three_sets() -> None:
    """Step 0: (88.7 + 81.95 + 86.05) / 3 = 85.567, printed 85.57."""
    values = experiment("vlmr1_t2", "expected")["values"]
    sets = ("refcoco_val", "refcocop_val", "refcocog_val")
    for way in ("sft", "rl"):
        for step, printed in values["figure"][f"in_domain_mean.{way}"].items():
            mean = math.fsum(values["paper"][f"{name}.{way}"][step] for name in sets) / 3
            assert printed == pytest.approx(mean, abs=0.025), (way, step)


@pytest.mark.parametrize("id", IDS)
def test_the_table_shows_what_is_published(id: str) -> None:
    table, expected = experiment(id, "table"), experiment(id, "expected")
    used = expected["use"] if isinstance(expected["use"], list) else [expected["use"]]
    published = [row for source in used for row in expected["values"][source].items()]
    named = {name for name, _ in published}
    columns = {column for _, row in published for column in row}
    for row in table["rows"]:
        assert row["published"] in named | {None}
    for column in table["columns"]:
        assert column["published"] in columns | {None}
        assert not set(column.get("not_testable", {})) - {"tiny"}
    labels = [row["label"] for row in table["rows"]]
    assert len(set(labels)) == len(labels)
    assert any(row["published"] for row in table["rows"])
    assert any(column["published"] for column in table["columns"])


@pytest.mark.parametrize("id", IDS)
def test_every_number_has_a_source_and_lies_in_the_range_of_its_unit(id: str) -> None:
    expected = experiment(id, "expected")
    sources = expected["sources"]
    assert set(expected["values"]) <= set(sources)
    for source in sources.values():
        assert set(source) == SOURCE_KEYS
        assert source["quality"] in QUALITIES
    for source, name, row in rows(id):
        for column, value in row.items():
            if value == "unknown":
                continue
            assert isinstance(value, int | float)
            if name.startswith("delta_"):
                assert abs(value) < 100
            elif sources[source]["unit"] == "percent":
                assert 0 <= value <= 100, (source, name, column)
            else:
                assert value >= 0


@pytest.mark.parametrize("id", IDS)
def test_sources_that_differ_are_a_conflict_and_others_are_none(id: str) -> None:
    """All numbers published for one cell stand in its conflict, and there is no other conflict."""
    expected = experiment(id, "expected")
    cells: dict[tuple[str, str], dict[str, float]] = {}
    for source, name, row in rows(id):
        for column, value in row.items():
            if value != "unknown":
                cells.setdefault((name, column), {})[source] = value
    differ = {place: values for place, values in cells.items() if len(set(values.values())) > 1}
    said = {(one["row"], one["column"]): one["values"] for one in expected["conflicts"]}
    assert {place: sorted(set(values.values())) for place, values in said.items()} == {
        place: sorted(set(values.values())) for place, values in differ.items()
    }
    for place, values in said.items():
        assert all(cells[place][source] == value for source, value in values.items())
        assert next(one["note"] for one in expected["conflicts"] if (one["row"], one["column"]) == place)
