"""What results say about a claim."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from groundrl.reporting.claims.paired import Paired
from groundrl.reporting.experiments.claim_file import Claim, ClaimTest


class Verdict(StrEnum):
    """The last four say why there is none of the first three."""

    holds = "holds"
    fails = "fails"
    undecided = "undecided"
    missing = "missing"
    not_counted = "not counted"
    not_informative = "not informative"
    not_testable = "not testable"


OBSTACLES = (Verdict.not_testable, Verdict.missing, Verdict.not_counted, Verdict.not_informative)
"""Worst first: the one that is told when several are there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TestResult:
    """A test with its comparison, as far as there is one.

    holds, fails  Holm's adjusted p-values, in the claimed direction and against it
    obstacles     why it cannot decide; with any, it entered the correction with p = 1
    """

    test: ClaimTest
    paired: Paired | None
    holds: float
    fails: float
    obstacles: tuple[tuple[Verdict, str], ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def p(self) -> float | None:
        """The uncorrected p-value in the claimed direction."""
        if self.paired is None:
            return None
        return self.paired.greater if self.test.direction == "greater" else self.paired.less


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimResult:
    """A claim, its verdict and its tests."""

    claim: Claim
    verdict: Verdict
    tests: tuple[TestResult, ...]


def judge(claim: Claim, tests: tuple[TestResult, ...], alpha: float) -> ClaimResult:
    """holds: all tests significant; fails: one significant against the claim; undecided: neither.

    A test that cannot decide leaves the claim without a verdict, whatever the others say.
    """
    found = {kind for test in tests for kind, _ in test.obstacles}
    if claim.not_testable is not None:
        verdict = Verdict.not_testable
    elif found:
        verdict = next(kind for kind in OBSTACLES if kind in found)
    elif any(test.fails < alpha for test in tests):
        verdict = Verdict.fails
    elif all(test.holds < alpha for test in tests):
        verdict = Verdict.holds
    else:
        verdict = Verdict.undecided
    return ClaimResult(claim=claim, verdict=verdict, tests=tests)
