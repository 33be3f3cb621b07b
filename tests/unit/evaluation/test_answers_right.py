"""What evaluation calls a right answer, whatever the run's rewards are."""

from __future__ import annotations

import pytest

from groundrl.config.compose import compose_run
from groundrl.evaluation.answers import JUDGES, answer_values
from groundrl.evaluation.config import EvalConfig
from groundrl.evaluation.suite import Judge
from groundrl.rewards.grader import Grader
from groundrl.rollout.written import written_rollout
from groundrl.types import ImageFrame, LabeledBox, Sample, Task, Truth

FRAME = ImageFrame(original=(100, 100), processed=(100, 100))


def sample(task: Task, answer: str | None = None, question: str = "?") -> Sample:
    boxes = (LabeledBox(xyxy=(0, 0, 10, 10)),) if answer is None else ()
    return Sample(id="a", task=task, images=(), truth=Truth(boxes=boxes, answer=answer), question=question)


def said(own: Sample, text: str) -> dict[str, float]:
    (result,) = Judge(EvalConfig(resamples=100), Grader(compose_run([]).reward.build())).grade(
        [own], [written_rollout("a", f"<think></think><answer>{text}</answer>", [FRAME])], 0.0
    )
    assert result.breakdowns[0].total is None  # the rubric of the run is about referring expressions
    assert result.breakdowns[0].terms == {}
    return answer_values(result.rollouts[0], own, result.answers[0])


@pytest.mark.parametrize(
    ("task", "truth", "right", "wrong"),
    [
        (Task.numeric, "100", "104.9", "105.1"),  # within 5 %
        (Task.mcq, "B", "(b)", "C"),
        (Task.yes_no, "no", "No.", "know"),
        (Task.text, "a cat", "A  Cat", "a cat sits"),
        (Task.point, None, '{"point_2d": [3, 4]}', '{"point_2d": [30, 4]}'),
    ],
)
def test_right_and_wrong(task: Task, truth: str | None, right: str, wrong: str) -> None:
    name = JUDGES[task][0]
    assert said(sample(task, truth), right) == {name: 1.0}
    assert said(sample(task, truth), wrong) == {name: 0.0}
    assert said(sample(task, truth), "") == {name: 0.0}


def test_a_truth_that_cannot_be_read_is_not_wrong_but_missing() -> None:
    assert said(sample(Task.yes_no, "maybe"), "yes") == {}


def test_pass_at_k_of_questions() -> None:
    """One of three is right; a second sample is never right: pass@3 = 1/2, accuracy = 1/6."""
    judge = Judge(EvalConfig(resamples=100), Grader(compose_run(["reward=answer"]).reward.build()))
    samples = [
        Sample(id=name, task=Task.numeric, images=(), truth=Truth(answer="7"), question="?") for name in "ab"
    ]
    texts = ["7", "8", "9", "1", "2", "3"]
    rollouts = [
        written_rollout(samples[n // 3].id, f"<answer>{text}</answer>", [FRAME], index=n % 3)
        for n, text in enumerate(texts)
    ]
    results = judge.grade(samples, rollouts, 0.0)
    greedy = judge.grade(samples, rollouts[::3], 0.0)
    metrics = judge.measure(greedy, results).metrics
    assert metrics["sampled/pass@3"].value == 0.5
    assert metrics["sampled/accuracy"].value == pytest.approx(1 / 6)
    assert metrics["greedy/accuracy"].value == 0.5
    assert not any(name.startswith(("sampled/best@", "greedy/pass@")) for name in metrics)
