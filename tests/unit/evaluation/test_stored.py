"""Evaluated answers on disk."""

from __future__ import annotations

from pathlib import Path

import pytest

from groundrl.config.compose import compose_run
from groundrl.errors import CheckpointError
from groundrl.evaluation.config import EvalConfig
from groundrl.evaluation.stored import Journal, read_answers
from groundrl.evaluation.suite import Judge, judged
from groundrl.rewards.grader import Grader
from groundrl.rollout.written import written_rollout
from groundrl.types import ImageFrame, LabeledBox, Rollout, Sample, Task, Truth

FRAME = ImageFrame(original=(100, 50), processed=(56, 28))


def sample(name: str) -> Sample:
    truth = Truth(boxes=(LabeledBox(xyxy=(0, 0, 10, 10), label="x"),))
    return Sample(id=name, task=Task.rec, images=(), truth=truth, question="x")


def judge() -> Judge:
    return Judge(EvalConfig(resamples=100), Grader(compose_run([]).reward.build()))


def written(path: Path, rollouts: list[Rollout], kind: str = "greedy") -> None:
    journal = Journal(path)
    assert journal.take(kind, 1) is None
    journal.add(kind, rollouts)
    journal.close()


@pytest.mark.parametrize("odd", ["\u2028", "\u2029", "\x85", "\x0b\x0c", "\x1c\x1d\x1e", "\r\n", "\u0000"])
def test_characters_that_end_lines_elsewhere_do_not_end_a_stored_answer(tmp_path: Path, odd: str) -> None:
    text = f"<think>one{odd}two</think><answer>[0, 0, 10, 10]</answer>"
    samples = [sample("a"), sample("b")]
    rollouts = [written_rollout(one.id, text, [FRAME], tokens=5, think_tokens=2) for one in samples]
    first = judge().measure(judge().grade(samples, rollouts, 0.0), [])
    written(tmp_path / "answers.jsonl", rollouts)
    again = judged(tmp_path / "answers.jsonl", samples, judge(), progress=0.0)
    assert again.metrics == first.metrics
    assert [one.rollouts[0].text for one in again.greedy] == [text, text]
    assert again.greedy[0].rollouts[0].think_tokens == 2


def test_answers_to_other_samples_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "answers.jsonl"
    written(file, [written_rollout(name, "?", [FRAME]) for name in "ab"])
    for others in ([sample("a")], [sample("b"), sample("a")], [sample("a"), sample("c")]):
        with pytest.raises(CheckpointError, match=r"(answers|are) to other samples"):
            judged(file, others, judge(), progress=0.0)
    with pytest.raises(
        CheckpointError, match="2 greedy answers to 3 samples: the evaluation was not finished"
    ):
        judged(file, [sample(name) for name in "abc"], judge(), progress=0.0)


def test_sampled_answers_come_back_beside_greedy_ones(tmp_path: Path) -> None:
    file = tmp_path / "answers.jsonl"
    journal = Journal(file)
    journal.add("greedy", [written_rollout(name, "g", [FRAME]) for name in "ab"])
    journal.add(
        "sampled", [written_rollout(name, str(k), [FRAME], index=k) for name in "ab" for k in (0, 1, 2)]
    )
    journal.close()
    again = judged(file, [sample("a"), sample("b")], judge(), progress=0.0)
    texts = [[one.text for one in result.rollouts] for result in again.results["sampled"]]
    assert texts == [["0", "1", "2"]] * 2
    assert "sampled/pass@3" in again.metrics


def test_a_journal_goes_on_after_its_last_whole_batch(tmp_path: Path) -> None:
    """Killed in the second batch of two: its answer and half a line are dropped, the first batch stays."""
    file = tmp_path / "answers.jsonl"
    written(file, [written_rollout(name, name, [FRAME]) for name in "abc"])
    with file.open("ab") as stream:
        stream.write(b'{"kind": "greedy", "sample_id": "d", "te')
    journal = Journal(file)
    first = journal.take("greedy", 2)
    assert first is not None
    assert [one.text for one in first] == ["a", "b"]
    assert journal.take("greedy", 2) is None
    journal.add("greedy", [written_rollout(name, f"new {name}", [FRAME]) for name in "cd"])
    assert journal.take("greedy", 1) is None  # what was just added is not handed out
    journal.close()
    assert [one.text for _, one in read_answers(file)] == ["a", "b", "new c", "new d"]


def test_answers_of_another_kind_end_what_is_taken(tmp_path: Path) -> None:
    file = tmp_path / "answers.jsonl"
    written(file, [written_rollout("a", "x", [FRAME])], kind="sampled")
    assert Journal(file).take("greedy", 1) is None
    assert Journal(tmp_path / "none.jsonl").take("greedy", 1) is None


@pytest.mark.parametrize("line", ["{}", '{"kind": "greedy"}', "[1]\n[2]", "a\nb"])
def test_a_file_that_holds_no_answers_is_named(tmp_path: Path, line: str) -> None:
    file = tmp_path / "answers.jsonl"
    file.write_text(f"{line}\n")
    with pytest.raises(CheckpointError, match=r"answers\.jsonl"):
        Journal(file)
