"""Evaluated answers on disk."""

from __future__ import annotations

from pathlib import Path

import pytest

from groundrl.config.compose import compose_run
from groundrl.errors import CheckpointError
from groundrl.evaluation.config import EvalConfig
from groundrl.evaluation.stored import restore, store
from groundrl.evaluation.suite import Judge
from groundrl.rewards.grader import Grader
from groundrl.rollout.written import written_rollout
from groundrl.types import ImageFrame, LabeledBox, Sample, Task, Truth

FRAME = ImageFrame(original=(100, 50), processed=(56, 28))


def sample(name: str) -> Sample:
    truth = Truth(boxes=(LabeledBox(xyxy=(0, 0, 10, 10), label="x"),))
    return Sample(id=name, task=Task.rec, images=(), truth=truth, question="x")


def judge() -> Judge:
    return Judge(EvalConfig(resamples=100), Grader(compose_run([]).reward.build()))


@pytest.mark.parametrize("odd", ["\u2028", "\u2029", "\x85", "\x0b\x0c", "\x1c\x1d\x1e", "\r\n", "\u0000"])
def test_characters_that_end_lines_elsewhere_do_not_end_a_stored_answer(tmp_path: Path, odd: str) -> None:
    text = f"<think>one{odd}two</think><answer>[0, 0, 10, 10]</answer>"
    samples = [sample("a"), sample("b")]
    rollouts = [written_rollout(one.id, text, [FRAME], tokens=5, think_tokens=2) for one in samples]
    first = judge().measure(judge().grade(samples, rollouts, 0.0), [])
    store(tmp_path / "answers.jsonl", first)
    again = restore(tmp_path / "answers.jsonl", samples, judge(), progress=0.0)
    assert again.metrics == first.metrics
    assert [one.rollouts[0].text for one in again.greedy] == [text, text]
    assert again.greedy[0].rollouts[0].think_tokens == 2


def test_answers_to_other_samples_are_refused(tmp_path: Path) -> None:
    samples = [sample("a"), sample("b")]
    rollouts = [written_rollout(one.id, "?", [FRAME]) for one in samples]
    store(tmp_path / "answers.jsonl", judge().measure(judge().grade(samples, rollouts, 0.0), []))
    for others in ([sample("a")], [sample("b"), sample("a")], [sample("a"), sample("c")]):
        with pytest.raises(CheckpointError, match="answers to other samples"):
            restore(tmp_path / "answers.jsonl", others, judge(), progress=0.0)
