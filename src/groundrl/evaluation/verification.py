"""How an answer came about that the policy checked itself (SVR-R1, sections 3 and 4): per rollout, and over
a set.

Per sample      turns_mean, answers_mean; first_right, wrong_to_right and right_to_wrong (the first answer
                against the last one); first_yes_frac (share of rollouts whose first verdict is YES: 1 is a
                verifier that always agrees); verify_tokens_frac (of the sampled tokens, those of verdicts)
Over the set    verdict_invalid_frac (of the verdicts, those that are neither word); tpr = P(YES | right) and
                fpr = P(YES | wrong) over all verdicts, informedness = tpr - fpr (Youden's J; 0: the verdict
                says nothing)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from groundrl.evaluation.bootstrap import Indices
from groundrl.geometry.boxes import Float64
from groundrl.parsing.verdict import read_verdict
from groundrl.types import Role, Rollout

RATIOS = ("verdict_invalid_frac", "tpr", "fpr", "informedness")


@dataclass(frozen=True, slots=True, kw_only=True)
class Course:
    """One rollout: which of its answers were right (None: the task has no such notion), and the verdict on
    each that got one (None: neither YES nor NO)."""

    right: tuple[bool | None, ...]
    verdicts: tuple[bool | None, ...]


def answers_of(rollout: Rollout) -> list[str]:
    """The texts of its answers, in order; the last one is `rollout.text`."""
    return [said.text for said in rollout.said if said.role is not Role.VERIFY] or [rollout.text]


def verdicts_of(rollout: Rollout) -> tuple[bool | None, ...]:
    """Its verdicts, in order."""
    return tuple(read_verdict(said.text) for said in rollout.said if said.role is Role.VERIFY)


def course_values(rollout: Rollout, course: Course) -> dict[str, float]:
    """The per-sample metrics of one rollout."""
    sampled = sum(said.tokens for said in rollout.said)
    verdicts = sum(said.tokens for said in rollout.said if said.role is Role.VERIFY)
    values = {
        "turns_mean": float(rollout.turns),
        "answers_mean": float(len(course.right)),
        "verify_tokens_frac": verdicts / sampled if sampled else 0.0,
    }
    if course.verdicts:
        values["first_yes_frac"] = float(course.verdicts[0] is True)
    first, last = course.right[0], course.right[-1]
    if first is not None and last is not None:
        values["first_right"] = float(first)
        values["wrong_to_right"] = float(last and not first)
        values["right_to_wrong"] = float(first and not last)
    return values


def verifier_statistic(courses: Sequence[Course], indices: Indices) -> Float64:
    """The metrics of `RATIOS` [4] over the courses that `indices` name; nan where nothing is divided by."""
    table = np.array([_counts(course) for course in courses], dtype=np.float64).reshape(-1, 6)
    verdicts, invalid, right, right_yes, wrong, wrong_yes = table[indices].sum(axis=0)
    with np.errstate(invalid="ignore", divide="ignore"):
        tpr, fpr = right_yes / right, wrong_yes / wrong
        return np.array([invalid / verdicts, tpr, fpr, tpr - fpr])


def _counts(course: Course) -> tuple[int, ...]:
    """Verdicts, invalid ones, those on right answers and the YES among them, likewise on wrong ones."""
    pairs = list(zip(course.right, course.verdicts, strict=False))
    right = [verdict for known, verdict in pairs if known is True]
    wrong = [verdict for known, verdict in pairs if known is False]
    said = course.verdicts
    return (len(said), said.count(None), len(right), right.count(True), len(wrong), wrong.count(True))
