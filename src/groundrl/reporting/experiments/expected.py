"""Published numbers of an experiment: `experiments/<id>/expected.yaml`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from groundrl.reporting.experiments.node import Node

QUALITIES = ("exact", "chart_label", "by_eye")
UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """Where numbers were published and how well they can be read there."""

    what: str
    quality: str
    unit: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Conflict:
    """A number for which the sources disagree."""

    row: str
    column: str
    values: Mapping[str, float]
    note: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    """`values[source][row][column]`, None where it was left out; `use` are the sources shown, best first."""

    sources: Mapping[str, Source]
    use: tuple[str, ...]
    values: Mapping[str, Mapping[str, Mapping[str, float | None]]]
    conflicts: tuple[Conflict, ...]
    doubts: tuple[str, ...]

    def published(self, row: str, column: str) -> tuple[str, float] | None:
        """(source, value) of the first source in use that has the number; None if none has."""
        for name in self.use:
            value = self.values.get(name, {}).get(row, {}).get(column)
            if value is not None:
                return name, value
        return None

    def conflict(self, row: str, column: str) -> Conflict | None:
        """The disagreement about a number, if there is one."""
        return next((entry for entry in self.conflicts if (entry.row, entry.column) == (row, column)), None)

    def rows(self) -> list[str]:
        """Names of all rows that a source has."""
        return list(dict.fromkeys(row for rows in self.values.values() for row in rows))

    def columns(self) -> list[str]:
        """Names of all columns that a source has."""
        return list(
            dict.fromkeys(column for rows in self.values.values() for row in rows.values() for column in row)
        )


def read_expected(node: Node) -> Expected:
    """The published numbers in `node`. Raises ConfigError with file and key."""
    fields = node.fields(need=("sources", "use", "values"), may=("conflicts", "doubts"))
    sources = {name: _source(entry) for name, entry in fields["sources"].items().items()}
    used = fields["use"].list() if isinstance(fields["use"].value, list) else [fields["use"]]
    values: dict[str, dict[str, dict[str, float | None]]] = {}
    for name, entry in fields["values"].items().items():
        if name not in sources:
            raise entry.error("is no source", got=name, todo=f"sources: {', '.join(sources)}")
        values[name] = {row: _numbers(numbers) for row, numbers in entry.items().items()}
    return Expected(
        sources=sources,
        use=tuple(entry.one_of(sources) for entry in used),
        values=values,
        conflicts=tuple(
            _conflict(entry, list(sources))
            for entry in (fields["conflicts"].list() if "conflicts" in fields else [])
        ),
        doubts=tuple(entry.text() for entry in (fields["doubts"].list() if "doubts" in fields else [])),
    )


def _source(node: Node) -> Source:
    fields = node.fields(need=("what", "quality"), may=("unit",))
    return Source(
        what=fields["what"].text(),
        quality=fields["quality"].one_of(QUALITIES),
        unit=fields["unit"].word() if "unit" in fields else "none",
    )


def _numbers(node: Node) -> dict[str, float | None]:
    return {
        column: None if value.value == UNKNOWN else value.number() for column, value in node.items().items()
    }


def _conflict(node: Node, sources: list[str]) -> Conflict:
    fields = node.fields(need=("row", "column", "values"), may=("note",))
    values: dict[str, float] = {}
    for name, value in fields["values"].items().items():
        if name not in sources:
            raise value.error("is no source", got=name, todo=f"sources: {', '.join(sources)}")
        values[name] = value.number()
    if len(values) < 2:
        raise fields["values"].error("needs two sources that disagree", got=dict(values))
    return Conflict(
        row=fields["row"].word(),
        column=fields["column"].word(),
        values=values,
        note=fields["note"].text() if "note" in fields else "",
    )
