"""How the table of an experiment is laid out: `experiments/<id>/table.yaml`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, cast

from groundrl.reporting.experiments.node import Node

Unit = Literal["percent", "tokens", "steps", "share", "count", "none"]
When = Literal["after", "before"]
FigureKind = Literal["curve", "scatter", "bar"]
UNITS: tuple[Unit, ...] = ("percent", "tokens", "steps", "share", "count", "none")
MIXES = ("scales", "commits")
BENCHMARK = "{benchmark}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A row: the runs whose swept settings are `axes`, of experiment `source`.

    `when` None takes the numbers after training, and those before it of runs that do not train.
    """

    label: str
    axes: Mapping[str, str]
    source: str
    published: str | None = None
    benchmark: str | None = None
    when: When | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """A column: one metric, at the end of the run or `at` a fraction of its steps (0 to 1)."""

    label: str
    metric: str
    unit: Unit
    published: str | None = None
    at: float | None = None
    not_testable: Mapping[str, str] = field(default_factory=dict)

    def metric_of(self, row: Row) -> str:
        """The metric's name with the row's benchmark in it."""
        return self.metric.replace(BENCHMARK, row.benchmark or BENCHMARK)


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """A plot of all rows: `y` over steps (curve), `y` over `x` (scatter), `y` by row (bar)."""

    kind: FigureKind
    y: str
    x: str | None = None
    title: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TableLayout:
    """A table. `mixed` says why its results may come from several scales or commits."""

    title: str
    question: str
    rows: tuple[Row, ...]
    columns: tuple[Column, ...]
    figures: tuple[Figure, ...] = ()
    scale: str | None = None
    mixed: Mapping[str, str] = field(default_factory=dict)


def read_layout(node: Node, id: str) -> TableLayout:
    """The layout in `node`, the file of experiment `id`. Raises ConfigError with file and key."""
    fields = node.fields(
        need=("title", "question", "rows", "columns"), may=("figures", "scale", "allow_mixed")
    )
    rows = tuple(_row(entry, id) for entry in fields["rows"].list())
    columns = tuple(_column(entry) for entry in fields["columns"].list())
    for name, entries in (("rows", rows), ("columns", columns)):
        labels = [entry.label for entry in entries]
        if not labels:
            raise fields[name].error("is empty", todo="a table needs one or more")
        for label in labels:
            if labels.count(label) > 1:
                raise fields[name].error("has a label twice", got=label, todo="give each its own")
    for row, entry in zip(rows, fields["rows"].list(), strict=True):
        needed = [column.metric for column in columns if BENCHMARK in column.metric]
        if needed and row.benchmark is None:
            raise entry.error("has no benchmark", todo=f"the column's metric {needed[0]} needs one")
    mixed = {
        name: reason.text()
        for name, reason in (
            fields["allow_mixed"].fields(may=MIXES) if "allow_mixed" in fields else {}
        ).items()
    }
    return TableLayout(
        title=fields["title"].text(),
        question=fields["question"].text(),
        rows=rows,
        columns=columns,
        figures=tuple(_figure(entry) for entry in (fields["figures"].list() if "figures" in fields else [])),
        scale=fields["scale"].word() if "scale" in fields else None,
        mixed=mixed,
    )


def _row(node: Node, id: str) -> Row:
    fields = node.fields(need=("label", "axes"), may=("from", "published", "benchmark", "when"))
    return Row(
        label=fields["label"].word(),
        axes={name: value.word() for name, value in fields["axes"].items().items()},
        source=fields["from"].text() if "from" in fields else id,
        published=fields["published"].word() if "published" in fields else None,
        benchmark=fields["benchmark"].text() if "benchmark" in fields else None,
        when=cast(When, fields["when"].one_of(("after", "before"))) if "when" in fields else None,
    )


def _column(node: Node) -> Column:
    fields = node.fields(need=("label", "metric", "unit"), may=("published", "at", "not_testable"))
    at = fields["at"].number() if "at" in fields else None
    if at is not None and not 0 <= at <= 1:
        raise fields["at"].error("must be a fraction of the run's steps, 0 to 1", got=at)
    reasons = fields["not_testable"].items() if "not_testable" in fields else {}
    return Column(
        label=fields["label"].word(),
        metric=fields["metric"].text(),
        unit=cast(Unit, fields["unit"].one_of(UNITS)),
        published=fields["published"].word() if "published" in fields else None,
        at=at,
        not_testable={scale: reason.text() for scale, reason in reasons.items()},
    )


def _figure(node: Node) -> Figure:
    kind = node.fields(need=("kind",), may=("metric", "x", "y", "title"))["kind"].one_of(
        ("curve", "scatter", "bar")
    )
    need = ("kind", "x", "y") if kind == "scatter" else ("kind", "metric")
    fields = node.fields(need=need, may=("title",))
    return Figure(
        kind=cast(FigureKind, kind),
        y=fields["y" if kind == "scatter" else "metric"].text(),
        x=fields["x"].text() if kind == "scatter" else None,
        title=fields["title"].text() if "title" in fields else None,
    )
