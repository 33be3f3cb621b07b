"""A cell of a table and all that must be said about it."""

from __future__ import annotations

from dataclasses import dataclass

from groundrl.reporting.experiments.layout import Unit
from groundrl.reporting.seeds import SeedMean

OK = "ok"
MISSING = "missing"
PARTIAL = "partial"
DRIFT = "drift"
CONFLICT = "conflict"
UNKNOWN = "unknown"
NOT_TESTABLE = "not testable"
PAPER = "paper"

LEGEND = {
    OK: "measured as published, and published",
    MISSING: "not measured; table.md has the commands of the runs that would fill it",
    PARTIAL: "measured on fewer seeds than asked for",
    DRIFT: "measured with other settings than its words give today",
    CONFLICT: "published sources disagree; each number is shown",
    UNKNOWN: "nothing is published",
    NOT_TESTABLE: "cannot be measured at this scale",
}


def scale_legend(scale: str, *, twins: bool) -> str:
    """What the name of a scale says as a mark."""
    if twins:
        return (
            f"measured at scale {scale}, on stand-ins for model and data: compare directions between rows, "
            "not numbers with the published ones (no difference is given)"
        )
    return f"measured at scale {scale}: the published model and data, but not the published training"


@dataclass(frozen=True, slots=True, kw_only=True)
class Published:
    """A published number in the column's unit, and its source's name; one of several in a conflict."""

    value: float
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Missing:
    """How to fill a cell: the sweep, and the single run of each seed that has none with today's settings."""

    sweep: str
    runs: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """`measured` and `difference` (measured - published) are in the column's unit.

    marks  all that qualifies the number, in a fixed order; none only for a number measured as published
    notes  sentences on this cell
    """

    row: str
    column: str
    metric: str
    unit: Unit
    scale: str
    measured: SeedMean | None = None
    seeds: tuple[int, ...] = ()
    published: tuple[Published, ...] = ()
    difference: float | None = None
    marks: tuple[str, ...] = ()
    missing: Missing | None = None
    notes: tuple[str, ...] = ()

    @property
    def status(self) -> str:
        """`ok`, or the marks: `tiny, drift`."""
        return ", ".join(self.marks) or OK
