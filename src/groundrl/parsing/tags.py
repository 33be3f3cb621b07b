"""Think and answer tags, found by plain string search (linear, no backtracking).

Policy: each of the four tags may occur at most once, and a think pair stands before the answer pair. A
missing think pair costs the format reward but not the answer. The reference implementations accept repeated
and nested tags, which lets a policy write several answers and be paid for the best placed one.
"""

from __future__ import annotations

from typing import NamedTuple

from groundrl.parsing.status import ParseStatus

THINK = ("<think>", "</think>")
ANSWER = ("<answer>", "</answer>")
_TAGS = (*THINK, *ANSWER)


class TagScan(NamedTuple):
    """The two bodies, stripped; None where the pair is not there or must not be read.

    strict   exactly one think pair, then exactly one answer pair, only whitespace around them
    problem  why `answer` is None
    open     what stands after an answer tag that is never closed
    """

    think: str | None
    answer: str | None
    strict: bool
    problem: ParseStatus | None = None
    open: str | None = None


def scan_tags(text: str) -> TagScan:
    """Locate the tags of a completion (which must not contain the prompt)."""
    if max(map(text.count, _TAGS)) > 1:
        return TagScan(think=None, answer=None, strict=False, problem=ParseStatus.DUPLICATE_TAGS)
    think_open, think_close = text.find(THINK[0]), text.find(THINK[1])
    answer_open, answer_close = text.find(ANSWER[0]), text.find(ANSWER[1])
    has_think = think_open >= 0 and think_close >= 0
    think = text[think_open + len(THINK[0]) : think_close].strip() if 0 <= think_open < think_close else None
    if answer_open < 0 or answer_close < 0:
        begun = answer_open >= 0 and (answer_open > think_close >= 0 or think_open < 0)
        rest = text[answer_open + len(ANSWER[0]) :].strip() if begun else None
        return TagScan(think=think, answer=None, strict=False, problem=ParseStatus.NO_ANSWER_TAG, open=rest)
    think_end = think_close + len(THINK[1])
    if answer_close < answer_open or (has_think and not think_open < think_close < think_end <= answer_open):
        return TagScan(think=think, answer=None, strict=False, problem=ParseStatus.TAG_ORDER)
    around = (
        text[:think_open] + text[think_end:answer_open] + text[answer_close + len(ANSWER[1]) :]
        if has_think
        else "no think pair"
    )
    answer = text[answer_open + len(ANSWER[0]) : answer_close].strip()
    return TagScan(think=think, answer=answer, strict=not around.strip())
