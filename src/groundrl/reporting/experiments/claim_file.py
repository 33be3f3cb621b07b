"""Claims of an experiment, written down before its runs: `experiments/<id>/claims.yaml`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, cast

from groundrl.reporting.experiments.node import Node

Direction = Literal["greater", "less"]
BEFORE = "before"


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """The runs on one side of a comparison: the swept settings `axes` of experiment `source`."""

    source: str
    axes: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimTest:
    """`metric` of `a` is greater (or less) than of `b`; `b` None is the start of each run of `a`.

    `at` takes the metric at that fraction of a run's steps instead of its end.
    """

    name: str
    metric: str
    a: Side
    b: Side | None
    direction: Direction
    at: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """A published statement; all its tests must come out. `not_testable` is the reason why it has none."""

    id: str
    text: str
    source: str
    tests: tuple[ClaimTest, ...]
    not_testable: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Claims:
    """The claims and what runs must be to count: scale, seeds, optimiser steps, evaluated scenes."""

    scale: str
    seeds: tuple[int, ...]
    steps: int
    alpha: float
    samples: int
    claims: tuple[Claim, ...]

    def tests(self) -> tuple[ClaimTest, ...]:
        """The tests of all claims: the family over which Holm corrects."""
        return tuple(test for claim in self.claims for test in claim.tests)

    def question(self) -> object:
        """All that decides a verdict: equal for two versions of a file that differ in words only."""
        asked = tuple((claim.id, claim.tests, claim.not_testable is None) for claim in self.claims)
        return self.scale, self.seeds, self.steps, self.alpha, self.samples, asked


def read_claims(node: Node, id: str) -> Claims:
    """The claims in `node`, the file of experiment `id`. Raises ConfigError with file and key."""
    fields = node.fields(need=("scale", "seeds", "steps", "alpha", "samples", "claims"))
    seeds = tuple(entry.whole(least=0) for entry in fields["seeds"].list())
    if len(seeds) != len(set(seeds)) or len(seeds) < 3:
        raise fields["seeds"].error("must be three or more different seeds", got=list(seeds))
    alpha = fields["alpha"].number()
    if not 0 < alpha < 0.5:
        raise fields["alpha"].error("must lie between 0 and 0.5", got=alpha)
    claims = tuple(_claim(entry, id) for entry in fields["claims"].list())
    names = [claim.id for claim in claims]
    for name in names:
        if names.count(name) > 1:
            raise fields["claims"].error("has an id twice", got=name, todo="give each claim its own")
    return Claims(
        scale=fields["scale"].word(),
        seeds=seeds,
        steps=fields["steps"].whole(least=0),
        alpha=alpha,
        samples=fields["samples"].whole(least=1),
        claims=claims,
    )


def _claim(node: Node, id: str) -> Claim:
    fields = node.fields(need=("id", "text", "source"), may=("tests", "not_testable"))
    reason = fields["not_testable"].text() if "not_testable" in fields else None
    tests = tuple(_test(entry, id) for entry in fields["tests"].list()) if "tests" in fields else ()
    if bool(tests) == (reason is not None):
        raise node.error(
            "needs either tests or not_testable", todo="write what is compared, or why it cannot be"
        )
    return Claim(
        id=fields["id"].word(),
        text=fields["text"].text(),
        source=fields["source"].text(),
        tests=tests,
        not_testable=reason,
    )


def _test(node: Node, id: str) -> ClaimTest:
    fields = node.fields(need=("name", "metric", "a", "b", "direction"), may=("at",))
    at = fields["at"].number() if "at" in fields else None
    if at is not None and not 0 <= at <= 1:
        raise fields["at"].error("must be a fraction of the run's steps, 0 to 1", got=at)
    return ClaimTest(
        name=fields["name"].text(),
        metric=fields["metric"].text(),
        a=_side(fields["a"], id),
        b=None if fields["b"].value == BEFORE else _side(fields["b"], id),
        direction=cast(Direction, fields["direction"].one_of(("greater", "less"))),
        at=at,
    )


def _side(node: Node, id: str) -> Side:
    entries = node.items()
    source = entries.pop("from").text() if "from" in entries else id
    return Side(source=source, axes={name: value.word() for name, value in entries.items()})
