"""What the warm-up teaches of self-verification, token by token."""

from __future__ import annotations

import numpy as np
import pytest

from groundrl.config.compose import compose_run
from groundrl.models.tiny.build import _wording
from groundrl.models.tiny.tokenizer import build_tokenizer
from groundrl.models.tiny.verdicts import Verdicts, Wording, lesson, misread
from groundrl.parsing.verdict import read_verdict
from groundrl.types import Sample, Task, Truth

WORDING = Wording(verify="right?", rethink="again", yes="<YES>", no="<NO>")
SAMPLE = Sample(id="a", task=Task.text, images=(), truth=Truth(answer="3"), question="how many?")


def taught(processor, verdicts: Verdicts | None, misreads: float, seed: int) -> tuple[list[str], list[str]]:
    """What is said in a lesson: all turns, and the text of what is learned of it."""
    made = lesson(
        SAMPLE, processor, verdicts, WORDING, lambda answer: f"[{answer}]", misreads,
        np.random.default_rng(seed),
    )  # fmt: skip
    assert made.ids.shape == made.learned.shape
    whole = processor.tokenizer.decode(made.ids.tolist()).split("<|im_end|>")
    learned = processor.tokenizer.decode(made.ids[made.learned].tolist()).split("<|im_end|>")
    return whole, learned


def test_an_answer_alone(tiny_policy) -> None:
    for verdicts in (None, Verdicts(share=0.0)):
        assert taught(tiny_policy.processor, verdicts, 0.0, 0) == (["[3]", ""], ["[3]", ""])
    assert taught(tiny_policy.processor, None, 1.0, 0)[1] == ["[2]", ""]  # the planted fault is learned


def test_a_right_answer_gets_yes_and_is_not_learned_again(tiny_policy) -> None:
    whole, learned = taught(tiny_policy.processor, Verdicts(share=1.0, wrong=0.0), 0.0, 0)
    assert learned == ["<YES>", ""]
    assert whole[0] == "[3]"
    assert whole[1] == "\n<|im_start|>user\nright?"
    assert whole[2] == "\n<|im_start|>assistant\n<YES>"


def test_a_wrong_answer_gets_no_and_a_right_one_after_it(tiny_policy) -> None:
    whole, learned = taught(tiny_policy.processor, Verdicts(share=1.0, wrong=1.0), 0.0, 0)
    assert learned == ["<NO>", "[3]", "<YES>", ""]
    assert whole[0] == "[2]"  # there to be judged, and not learned
    assert [turn.split("\n")[-1] for turn in whole] == [
        "[2]", "right?", "<NO>", "again", "[3]", "right?", "<YES>", "",
    ]  # fmt: skip


def test_verdicts_are_wrong_as_often_as_asked(tiny_policy) -> None:
    verdicts = Verdicts(share=1.0, wrong=0.5, noise=0.2)
    wrong = 0
    for seed in range(400):
        whole, learned = taught(tiny_policy.processor, verdicts, 0.0, seed)
        wrong += read_verdict(learned[0]) is not (whole[0] == "[3]")
    assert abs(wrong / 400 - 0.2) < 3 * (0.2 * 0.8 / 400) ** 0.5


def test_misread_answers_are_wrong_and_of_the_same_kind() -> None:
    rng = np.random.default_rng(0)
    assert [misread(str(value), rng) for value in range(5)] == ["1", "2", "1", "2", "3"]
    colours = {misread("red", rng) for _ in range(60)}
    assert colours == {"green", "blue", "yellow", "purple", "orange"}


@pytest.mark.parametrize("option", ["loop", "hard"])
def test_the_taught_sentences_are_those_that_are_asked(option: str) -> None:
    """The tiny tokenizer holds each as one token, and rollouts ask nothing else."""
    loop = compose_run([f"+verify@eval.verify={option}"]).loop()
    assert loop is not None
    own = _wording()
    assert (own.verify, own.rethink, own.yes, own.no) == (
        loop.verify_prompt, loop.rethink_prompt, loop.yes, loop.no,
    )  # fmt: skip
    tokenizer = build_tokenizer(3)
    for text in (own.verify, own.rethink, own.yes, own.no):
        assert len(tokenizer.encode(text, add_special_tokens=False)) == 1
