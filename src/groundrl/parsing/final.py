"""Final answers that are no boxes: a letter, yes or no, a number, or text.

What counts as readable is declared where each kind is read: `choice.py`, `yes_no.py`, `number.py`. Text and
region labels are the body as it stands. Truths are read by the same function as answers.
"""

from __future__ import annotations

from dataclasses import dataclass

from groundrl.parsing.choice import read_choice
from groundrl.parsing.number import read_number
from groundrl.parsing.status import ParseStatus
from groundrl.parsing.yes_no import read_yes_no
from groundrl.types import Task


@dataclass(frozen=True, slots=True, kw_only=True)
class FinalReading:
    """`value` is the canonical form of the answer, None unless `status` is OK.

    mcq      an upper-case letter, else the text of an option
    yes_no   "yes" or "no"
    numeric  the shortest decimal form: "12", "0.5", "1e+20"
    others   the text
    """

    status: ParseStatus
    value: str | None = None


def _canonical(body: str, task: Task) -> str | None:
    if task is Task.mcq:
        return read_choice(body)
    if task is Task.yes_no:
        return read_yes_no(body)
    if task is Task.numeric:
        number = read_number(body)
        return None if number is None else number.value
    return body.encode("utf-8", "replace").decode("utf-8")  # lone surrogates cannot be stored


def read_final(body: str, task: Task) -> FinalReading:
    """Read the stripped inside of the answer tags. Never raises; linear in the text."""
    if not body.strip():
        return FinalReading(status=ParseStatus.EMPTY)
    value = _canonical(body, task)
    return FinalReading(status=ParseStatus.UNREADABLE if value is None else ParseStatus.OK, value=value)
