"""What can be wrong with a prompt, by name."""

from __future__ import annotations

from enum import StrEnum


class Defect(StrEnum):
    """Codes of the prompt linter (`lint.py`).

    missing_space      a sentence starts right behind the last one ("person.Output", the data defect studied
                       in the blog of 2025-03-24, section 5.1)
    double_space       two or more spaces inside a line
    duplicate_targets  a target is asked for twice
    equal_targets      two targets are one category under the label normalisation
    tags_inside        a question or a target holds a think or answer tag
    unfilled_field     a field in braces that nothing fills
    empty_question     nothing is asked, or a target has no name
    """

    missing_space = "missing_space"
    double_space = "double_space"
    duplicate_targets = "duplicate_targets"
    equal_targets = "equal_targets"
    tags_inside = "tags_inside"
    unfilled_field = "unfilled_field"
    empty_question = "empty_question"


WORDING = (Defect.missing_space, Defect.double_space)
"""Defects that a prompt may have on purpose, as the condition of an experiment."""
