"""An experiment: all that its folder says, checked against its sweep."""

from __future__ import annotations

from dataclasses import dataclass

from groundrl.reporting.experiments.claim_file import Claims, Side, read_claims
from groundrl.reporting.experiments.expected import Expected, read_expected
from groundrl.reporting.experiments.layout import TableLayout, read_layout
from groundrl.reporting.experiments.node import Node, read_node
from groundrl.reporting.experiments.plan import Planner
from groundrl.sweeping.layout import Layout
from groundrl.sweeping.results import ResultRow, read_results


@dataclass(frozen=True, slots=True, kw_only=True)
class Experiment:
    """The files of `experiments/<id>`; `nodes` are their roots, to name places in errors."""

    id: str
    layout: TableLayout
    expected: Expected | None
    claims: Claims | None
    nodes: dict[str, Node]


class Results:
    """Frozen results by experiment, each file read once."""

    def __init__(self, places: Layout) -> None:
        self._places = places
        self._known: dict[str, list[ResultRow]] = {}

    def of(self, id: str) -> list[ResultRow]:
        """The rows of an experiment in the order they were added; none without a file. Raises DataError."""
        if id not in self._known:
            self._known[id] = read_results(self._places.results(id))
        return self._known[id]


def experiment_ids(places: Layout) -> list[str]:
    """Experiments that have a table."""
    return sorted(path.parent.name for path in (places.root / "experiments").glob("*/table.yaml"))


def read_experiment(places: Layout, id: str) -> Experiment:
    """Read the files of an experiment; expected.yaml and claims.yaml may be absent. Raises ConfigError.

    Published rows and columns that the table names must exist in expected.yaml.
    """
    folder = places.experiment(id)
    nodes = {"table": read_node(folder / "table.yaml", places.root)}
    for name in ("expected", "claims"):
        if (folder / f"{name}.yaml").is_file():
            nodes[name] = read_node(folder / f"{name}.yaml", places.root)
    layout = read_layout(nodes["table"], id)
    expected = read_expected(nodes["expected"]) if "expected" in nodes else None
    _check_published(layout, expected, nodes["table"])
    claims = read_claims(nodes["claims"], id) if "claims" in nodes else None
    return Experiment(id=id, layout=layout, expected=expected, claims=claims, nodes=nodes)


def check_axes(experiment: Experiment, planner: Planner, scale: str) -> None:
    """Raise ConfigError on an axis or value, in table or claims, that its sweep does not have."""
    rows = experiment.nodes["table"].items()["rows"].list()
    for row, node in zip(experiment.layout.rows, rows, strict=True):
        planner(row.source, scale, 0).check_axes(row.axes, node.items()["axes"])
    if experiment.claims is None:
        return
    for claim, node in zip(
        experiment.claims.claims, experiment.nodes["claims"].items()["claims"].list(), strict=True
    ):
        for test, where in zip(claim.tests, node.items()["tests"].list() if claim.tests else [], strict=True):
            for name, side in (("a", test.a), ("b", test.b)):
                if isinstance(side, Side):
                    planner(side.source, experiment.claims.scale, 0).check_axes(
                        side.axes, where.items()[name]
                    )


def _check_published(layout: TableLayout, expected: Expected | None, node: Node) -> None:
    for kind, entries, known in (
        ("rows", layout.rows, expected.rows() if expected else []),
        ("columns", layout.columns, expected.columns() if expected else []),
    ):
        for entry, where in zip(entries, node.items()[kind].list(), strict=True):
            if entry.published is not None:
                where.items()["published"].one_of(known)
