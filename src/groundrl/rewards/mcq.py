"""1 where the answer chooses the true option, else 0.

Letters are compared as letters, texts after `normalise_label`. Where the question lists its options one a
line ("A. cat", "(A) cat", "A) cat", "A: cat"), the text of an option stands for its letter and the other way
round. The released VLM-R1 term gives 0 to "(B)" and "B) cat"; both count here.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from groundrl.config.registry import register
from groundrl.parsing.choice import is_letter
from groundrl.rewards.base import ScoreContext, TermConfig
from groundrl.rewards.true_answer import read_ok, same_text, true_value
from groundrl.types import Missing, Rollout, Sample, Scored, Task, TextPart

_OPTION = re.compile(r"^[ \t]*[(\[]?([A-Z])[)\].:][ \t]+(\S.*)$", re.MULTILINE)


def listed_options(question: str) -> dict[str, str]:
    """Text of each option that stands on its own line, by letter, without a closing full stop."""
    return {
        match[1]: match[2].strip().removesuffix(".").rstrip()
        for match in _OPTION.finditer(question.replace("\r\n", "\n"))
    }


def question_text(sample: Sample) -> str:
    """The question; for a conversation the text of its user turns."""
    parts = (part for message in sample.messages if message.role == "user" for part in message.parts)
    return "\n".join([sample.question, *(part.text for part in parts if isinstance(part, TextPart))])


def _same_option(answer: str, truth: str, sample: Sample) -> bool:
    if is_letter(answer) and is_letter(truth):
        return answer == truth
    if same_text(answer, truth):
        return True
    options = listed_options(question_text(sample))
    if is_letter(answer):
        return answer in options and same_text(options[answer], truth)
    return truth in options and same_text(answer, options[truth])


@dataclass(frozen=True, slots=True, kw_only=True)
class Mcq:
    """detail: `readable`, and `letter`: 1 for an answer that is a letter, 0 for the text of an option."""

    tasks = frozenset({Task.mcq})
    needs = ()

    def score(self, rollout: Rollout, sample: Sample, context: ScoreContext) -> Scored | Missing:
        truth = true_value(sample)
        if isinstance(truth, Missing):
            return truth
        value = context.answer.value
        detail = read_ok(context.answer.status) | {"letter": float(value is not None and is_letter(value))}
        return Scored(float(value is not None and _same_option(value, truth, sample)), detail)


@register("reward/term", "mcq")
@dataclass(kw_only=True, slots=True)
class McqConfig(TermConfig):
    """No settings besides `weight`."""

    def build(self) -> Mcq:
        return Mcq()
