"""What evaluation says of answers that the policy verified: a set worked out by hand."""

from __future__ import annotations

from pathlib import Path

import pytest

from groundrl.config.compose import compose_run
from groundrl.errors import CheckpointError
from groundrl.evaluation.config import EvalConfig
from groundrl.evaluation.stored import Journal
from groundrl.evaluation.suite import Judge, judged
from groundrl.evaluation.verification import answers_of, verdicts_of
from groundrl.parsing.verdict import read_verdict
from groundrl.rewards.grader import Grader
from groundrl.rollout.written import written_rollout
from groundrl.types import ImageFrame, Role, Rollout, Said, Sample, Task, Truth

FRAME = ImageFrame(original=(100, 100), processed=(100, 100))
TRUE = "7"
RIGHT, WRONG = "<answer>7</answer>", "<answer>3</answer>"
COURSES = [
    # what was said in turn; answers have 4 tokens, verdicts 1
    ["R", "YES"],
    ["W", "NO", "R", "YES"],
    ["R", "NO", "W", "YES"],
    ["W", "YES"],
    ["W", "NO", "W", "hm", "R"],
]


@pytest.mark.parametrize(
    ("text", "verdict"),
    [
        ("<YES>", True),
        ("<NO>", False),
        ("yes", True),
        ("No.", False),
        ("NO<YES>", False),
        ("it is right: YES, not NO", True),
        ("[no]", False),
        ("", None),
        ("maybe", None),
        ("yesterday it was known", None),
        ("YES_NO", True),  # an underscore parts words
        ("<<NO", False),
    ],
)
def test_verdicts(text: str, verdict: bool | None) -> None:
    """Case and brackets do not count, the first of the two words does; neither is no verdict."""
    assert read_verdict(text) is verdict


def test_a_long_text_without_verdict_takes_no_time() -> None:
    assert read_verdict("yesno" * 200_000) is None


def rollout(number: int, course: list[str]) -> Rollout:
    texts = {"R": RIGHT, "W": WRONG}
    said = tuple(
        Said(role=Role.STUDENT, text=texts[one], tokens=4)
        if one in texts
        else Said(role=Role.VERIFY, text=one, tokens=1)
        for one in course
    )
    last = next(one for one in reversed(course) if one in texts)
    return written_rollout(f"s{number}", texts[last], [FRAME], tokens=4, said=said)


SAMPLES = [
    Sample(id=f"s{number}", task=Task.numeric, images=(), truth=Truth(answer=TRUE), question="?")
    for number in range(len(COURSES))
]
VERIFIED = [rollout(number, course) for number, course in enumerate(COURSES)]
ONCE = [
    written_rollout(f"s{number}", RIGHT if course[0] == "R" else WRONG, [FRAME], tokens=4)
    for number, course in enumerate(COURSES)
]


def judge() -> Judge:
    return Judge(EvalConfig(resamples=100), Grader(compose_run(["reward=answer"]).reward.build()))


def test_metrics_of_a_set_worked_out_by_hand() -> None:
    own = judge()
    once, looped = own.grade(SAMPLES, ONCE, 0.0), own.grade(SAMPLES, VERIFIED, 0.0)
    metrics = {name: metric.value for name, metric in own.measure(once, [], looped).metrics.items()}
    wanted = {
        "accuracy": 3 / 5,  # samples 0, 1 and 4 end right
        "first_right": 2 / 5,
        "gap_accuracy": 1 / 5,
        "wrong_to_right": 2 / 5,
        "right_to_wrong": 1 / 5,
        "turns_mean": (2 + 4 + 4 + 2 + 5) / 5,
        "answers_mean": (1 + 2 + 2 + 1 + 3) / 5,
        "first_yes_frac": 2 / 5,
        "verdict_invalid_frac": 1 / 8,
        "tpr": 2 / 3,  # on right answers: YES, YES, NO
        "fpr": 2 / 5,  # on wrong ones: NO, YES, YES, NO, hm
        "informedness": 2 / 3 - 2 / 5,
        "verify_tokens_frac": (1 / 5 + 2 / 10 + 2 / 10 + 1 / 5 + 2 / 14) / 5,
    }
    for name, value in wanted.items():
        assert metrics[f"verified/{name}"] == pytest.approx(value), name
    assert metrics["greedy/accuracy"] == pytest.approx(2 / 5)
    assert not any(name.startswith("greedy/turns") for name in metrics)  # a single pass verifies nothing


def test_a_verifier_that_always_agrees_changes_nothing() -> None:
    own = judge()
    agreed = [rollout(number, [course[0], "YES"]) for number, course in enumerate(COURSES)]
    measured = own.measure(own.grade(SAMPLES, ONCE, 0.0), [], own.grade(SAMPLES, agreed, 0.0)).metrics
    assert measured["verified/gap_accuracy"].value == 0
    assert measured["verified/accuracy"].value == measured["greedy/accuracy"].value
    assert measured["verified/first_yes_frac"].value == 1
    assert measured["verified/informedness"].value == 0


def test_rates_that_nothing_defines_are_left_out() -> None:
    """No wrong answer was judged, so there is no false positive rate; it is not reported as 0."""
    own = judge()
    first, samples = [rollout(0, ["R", "YES"])], SAMPLES[:1]
    metrics = own.measure(own.grade(samples, ONCE[:1], 0.0), [], own.grade(samples, first, 0.0)).metrics
    assert metrics["verified/tpr"].value == 1
    assert "verified/fpr" not in metrics
    assert "verified/informedness" not in metrics


def test_stored_conversations_are_judged_again_alike(tmp_path: Path) -> None:
    own = judge()
    first = own.measure(own.grade(SAMPLES, ONCE, 0.0), [], own.grade(SAMPLES, VERIFIED, 0.0))
    file = tmp_path / "answers.jsonl"
    journal = Journal(file)
    journal.add("greedy", ONCE)
    journal.add("verified", VERIFIED)
    journal.close()
    again = judged(file, SAMPLES, judge(), progress=0.0)
    assert again.metrics == first.metrics
    kept = [result.rollouts[0] for result in again.results["verified"]]
    assert [one.said for one in kept] == [one.said for one in VERIFIED]
    assert answers_of(kept[4]) == [WRONG, WRONG, RIGHT]
    assert verdicts_of(kept[4]) == (False, None)

    twice = tmp_path / "twice.jsonl"
    journal = Journal(twice)
    journal.add("greedy", ONCE)
    journal.add("verified", [*VERIFIED, *VERIFIED])
    journal.close()
    with pytest.raises(CheckpointError, match="answers to other samples"):
        judged(twice, SAMPLES, judge(), progress=0.0)


def test_paired_differences_cover_the_loop() -> None:
    own = judge()
    once = own.grade(SAMPLES, ONCE, 0.0)
    before = own.measure(once, [], own.grade(SAMPLES, VERIFIED, 0.0))
    agreed = [rollout(number, [course[0], "YES"]) for number, course in enumerate(COURSES)]
    after = own.measure(once, [], own.grade(SAMPLES, agreed, 0.0))
    difference = own.difference(before, after)
    assert difference["verified/accuracy"].value == pytest.approx(-1 / 5)
    assert difference["verified/turns_mean"].value == pytest.approx(2 - 17 / 5)
    assert difference["greedy/accuracy"].value == 0


def test_the_loop_of_evaluation() -> None:
    """The rollout's own, or one that is asked for; a run without one has no verified/... to go by."""
    assert compose_run([]).loop() is None
    own = compose_run(["rollout=self_verify", "rollout.verify.limit=4"])
    assert own.loop() == own.rollout.loop()
    asked = compose_run(["+verify@eval.verify=hard"])
    assert asked.rollout.loop() is None
    loop = asked.loop()
    assert loop is not None
    assert loop.limit == 5
    both = compose_run(["rollout=self_verify", "+verify@eval.verify=hard"]).loop()
    assert both is not None
    assert both.limit == 5
