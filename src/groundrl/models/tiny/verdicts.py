"""What the warm-up teaches of self-verification: wrong answers, verdicts on answers, second answers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from groundrl.data.scene import COLOURS
from groundrl.models.processor import Processor
from groundrl.types import Message, Sample, TextPart


@dataclass(frozen=True, slots=True, kw_only=True)
class Wording:
    """The two requests, and the two words they are answered with."""

    verify: str
    rethink: str
    yes: str
    no: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdicts:
    """Which samples go on to verdicts.

    share   of the samples whose answer is followed by a verdict
    wrong   of these, the share whose first answer is wrong
    noise   chance that a verdict is the wrong one, so that the start's verifier is not perfect
    """

    share: float = 0.5
    wrong: float = 0.5
    noise: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Lesson:
    """A completion and which of its tokens are learned: int64 and bool [C]."""

    ids: NDArray[np.int64]
    learned: NDArray[np.bool_]


def misread(answer: str, rng: np.random.Generator) -> str:
    """A wrong answer of the same kind: the next number down (of 0 and 1: up), or another colour."""
    if answer.isdigit():
        value = int(answer)
        return str(value - 1 if value > 1 else value + 1)
    others = [colour for colour in COLOURS if colour != answer]
    return others[int(rng.integers(len(others)))]


def lesson(
    sample: Sample,
    processor: Processor,
    verdicts: Verdicts | None,
    wording: Wording | None,
    write: Callable[[str], str],
    misreads: float,
    rng: np.random.Generator,
) -> Lesson:
    """An answer, and with `verdicts.share` a verdict on it; after a NO another answer and its verdict.

    write     an answer's text in the asked-for form
    misreads  chance that a first answer is learned although it is wrong; an answer that is only there to be
              judged is not learned
    """
    truth = sample.truth.answer or ""
    told: list[tuple[NDArray[np.int64], bool]] = []

    def say(text: str, learned: bool) -> None:
        told.append((processor.encode(text + "<|im_end|>"), learned))

    def ask(text: str) -> None:
        told.append((processor.reply(Message(role="user", parts=(TextPart(text),))), False))

    def verdict(right: bool) -> str:
        assert verdicts is not None
        assert wording is not None
        said = right if rng.random() >= verdicts.noise else not right
        return wording.yes if said else wording.no

    if verdicts is None or wording is None or rng.random() >= verdicts.share:
        say(write(misread(truth, rng) if rng.random() < misreads else truth), True)
    else:
        right = bool(rng.random() >= verdicts.wrong)
        say(write(truth if right else misread(truth, rng)), False)
        ask(wording.verify)
        say(verdict(right), True)
        if not right:
            ask(wording.rethink)
            say(write(truth), True)
            ask(wording.verify)
            say(verdict(True), True)
    return Lesson(
        ids=np.concatenate([ids for ids, _ in told]),
        learned=np.concatenate([np.full(len(ids), learned) for ids, learned in told]),
    )
