"""A table with every status in it, in four formats, against stored texts; and what must be escaped."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path

import pytest
from tests.unit.tables.fake_experiment import FakeExperiments, metrics, plan

from groundrl.reporting.experiments.folder import Results, read_experiment
from groundrl.reporting.tables.build import Choice, build_table
from groundrl.reporting.tables.latex import render_latex, tex
from groundrl.reporting.tables.lines import render_csv
from groundrl.reporting.tables.markdown import escape, render_markdown
from groundrl.reporting.tables.page import render_html
from groundrl.reporting.tables.remarks import grouped
from groundrl.reporting.tables.table import Table

GOLDEN = Path(__file__).resolve().parents[2] / "golden" / "table"
EVERY = """
title: Which reward & why
question: Does a price on <boxes> help?
rows:
  - {label: AP, axes: {reward: ap}, published: ap}
  - {label: AP50_old, axes: {reward: ap50}, published: ap50}
  - {label: odLength, axes: {reward: odlength}, published: odlength}
  - {label: GIoU, axes: {reward: giou}, published: giou}
columns:
  - {label: mAP, metric: coco/ap, unit: percent, published: map}
  - {label: GP, metric: coco/gp50, unit: percent, published: gp}
  - {label: names, metric: coco/names, unit: share, not_testable: {tiny: the toy world has no names}}
"""
STATUSES = {
    "ok", "missing", "partial", "drift", "conflict", "unknown", "not testable", "tiny"
}  # fmt: skip


@pytest.fixture
def table(experiments: FakeExperiments) -> Table:
    """AP at paper scale as published; AP50 on two seeds with old settings; odLength tiny; GIoU not run."""
    experiments.write(table=EVERY)
    for seed, (ap, gp) in enumerate([(0.1, 0.6), (0.2, 0.6), (0.3, 0.6)]):
        experiments.add(
            "ap", [0.0], seeds=[seed], after=metrics({"coco/ap": ap, "coco/gp50": gp, "coco/names": 0.5})
        )
    experiments.add("ap50", [0.11, 0.11], old_key="old")
    twins = {"model": ("qwen3b", "tiny")}
    experiments.add("odlength", [0.4, 0.5, 0.6], scale="tiny", twins=twins, commit="b" * 40)
    return build_table(
        read_experiment(experiments.places, "x"), Results(experiments.places), plan, Choice(mixed=True)
    )


def test_every_status_is_there(table: Table) -> None:
    assert {mark for cell in table.all_cells() for mark in cell.status.split(", ")} == STATUSES


def test_markdown(table: Table) -> None:
    text = render_markdown(table, ["figures/curve-reward-total.svg"], "## Claims\n\nnone\n")
    assert text == (GOLDEN / "table.md").read_text("utf-8")


def test_csv(table: Table) -> None:
    assert render_csv(table) == (GOLDEN / "table.csv").read_text("utf-8")


def test_latex(table: Table) -> None:
    assert render_latex(table) == (GOLDEN / "table.tex").read_text("utf-8")


def test_html(table: Table) -> None:
    text = render_html(table, ["c1: holds (a < b)"])
    assert text == (GOLDEN / "table.html").read_text("utf-8")

    seen: set[str] = set()

    class Reader(HTMLParser):
        def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
            seen.add(tag)
            assert not any(name in ("src", "href", "onclick") for name, _ in attrs)

    Reader().feed(text)
    assert "boxes" not in seen  # the question's <boxes> is text
    assert "script" not in seen


def test_equal_results_give_equal_texts(table: Table, experiments: FakeExperiments) -> None:
    again = build_table(
        read_experiment(experiments.places, "x"), Results(experiments.places), plan, Choice(mixed=True)
    )
    for render in (render_markdown, render_csv, render_latex, render_html):
        assert render(again) == render(table)


def test_text_is_escaped() -> None:
    assert escape("a|b <i> *x* _y_ coco_all/ap `z` [l](u) & \\\n") == (
        "a\\|b &lt;i> \\*x\\* \\_y\\_ coco_all/ap \\`z\\` \\[l](u) &amp; \\\\ "
    )
    assert tex(r"50 % & a_b #1 {x} ~ ^ $ \ <") == (
        r"50 \% \& a\_b \#1 \{x\} \textasciitilde{} \textasciicircum{} \$ \textbackslash{} \textless{}"
    )


def test_latex_rows_have_the_cells_of_the_head(table: Table) -> None:
    lines = [line for line in render_latex(table).splitlines() if line.endswith(r"\\")]
    assert {len(re.findall(r"(?<!\\)&", line)) for line in lines} == {3}
    assert len(lines) == 1 + 2 * 4


def test_remarks_are_said_once() -> None:
    remarks = [
        ("a", "x", "t"),
        ("a", "y", "t"),
        ("b", "x", "t"),
        ("b", "y", "t"),
        ("a", "x", "u"),
        ("b", "y", "v"),
    ]
    assert grouped(remarks, ["a", "b"], ["x", "y", "z"]) == ["all rows, x + y: t", "a, x: u", "b, y: v"]
