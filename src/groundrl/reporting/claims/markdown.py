"""Verdicts as Markdown: `claims.md`, and the end of `table.md`."""

from __future__ import annotations

from collections.abc import Sequence

from groundrl.reporting.claims.verdict import ClaimResult, TestResult, Verdict
from groundrl.reporting.experiments.claim_file import Claims
from groundrl.reporting.tables.markdown import escape, markdown_grid

SMALLEST_P = 1e-4


def render_claims(claims: Claims, results: Sequence[ClaimResult]) -> str:
    """The section of an experiment's claims: verdicts, tests, and why a test did not decide."""
    seeds = ", ".join(map(str, claims.seeds))
    count = len(claims.tests())
    percent = f"{100 * (1 - claims.alpha):g}"
    parts = [
        "## Claims",
        f"Scale {claims.scale}, seeds {seeds}, {claims.steps} steps, {claims.samples} scenes or more. Paired "
        f"by seed, one-sided t; Holm over {count} test{'' if count == 1 else 's'}, alpha {claims.alpha:g}. "
        f"Effects are a - b in the metric's own unit [{percent} % interval, not corrected].",
        markdown_grid(
            ["claim", "verdict", "published in"],
            [
                [
                    f"**{escape(result.claim.id)}** {escape(result.claim.text)}",
                    f"**{result.verdict}**" + _reason(result),
                    escape(result.claim.source),
                ]
                for result in results
            ],
        ),
    ]
    tested = [(result, test) for result in results for test in result.tests]
    if tested:
        header = ["claim", "test", "metric", "claimed", "effect", "p", "p (Holm)", "p against (Holm)"]
        parts.append(markdown_grid(header, [_line(result, test) for result, test in tested]))
    remarks: dict[str, list[str]] = {}
    for result, test in tested:
        for text in (*(f"{kind}: {reason}" for kind, reason in test.obstacles), *test.notes):
            remarks.setdefault(text, []).append(f"{result.claim.id} {test.test.name}")
    if remarks:
        parts.append(
            "\n".join(f"* {escape(text)} ({escape('; '.join(where))})" for text, where in remarks.items())
        )
    return "\n\n".join(parts) + "\n"


def claim_lines(results: Sequence[ClaimResult]) -> list[str]:
    """One plain line a claim."""
    return [f"{result.claim.id}: {result.verdict} ({result.claim.text})" for result in results]


def effect_text(test: TestResult) -> str:
    """`+0.041 [+0.020, +0.062]`; a dash without a comparison."""
    own = test.paired
    if own is None:
        return "-"
    digits = 1 if max(abs(own.effect), abs(own.low), abs(own.high)) >= 10 else 4
    return f"{own.effect:+.{digits}f} [{own.low:+.{digits}f}, {own.high:+.{digits}f}]"


def _line(result: ClaimResult, test: TestResult) -> list[str]:
    known = test.paired is not None
    decides = known and not test.obstacles
    sign = " (sign test)" if test.paired is not None and test.paired.exact else ""
    at = f" at {test.test.at:g}" if test.test.at is not None else ""
    return [
        escape(result.claim.id),
        escape(test.test.name),
        escape(test.test.metric + at),
        f"a {'>' if test.test.direction == 'greater' else '&lt;'} b",
        effect_text(test),
        f"{p_text(test.p)}{sign}" if test.p is not None else "-",
        p_text(test.holds) if decides else "-",
        p_text(test.fails) if decides else "-",
    ]


def p_text(p: float) -> str:
    """A p-value with four digits; none is 0."""
    return f"{p:.4f}" if p >= SMALLEST_P else f"below {SMALLEST_P:.4f}"


def _reason(result: ClaimResult) -> str:
    if result.verdict is Verdict.not_testable and result.claim.not_testable:
        return f": {escape(result.claim.not_testable)}"
    return ""
