"""Terms for final answers that are no boxes, and what a policy could try on them."""

from __future__ import annotations

import pickle
import signal
import threading
import time

import pytest

from groundrl.errors import ConfigError
from groundrl.parsing.answer import parse_rollout
from groundrl.rewards import math_answer
from groundrl.rewards.all_match import AllMatchConfig
from groundrl.rewards.base import ScoreContext
from groundrl.rewards.deadline import TimeUp, deadline
from groundrl.rewards.exact import ExactConfig
from groundrl.rewards.math_answer import MathConfig
from groundrl.rewards.mcq import McqConfig, listed_options
from groundrl.rewards.numeric import NumericConfig, Percent
from groundrl.rewards.yes_no import YesNoConfig
from groundrl.rollout.written import written_rollout
from groundrl.types import Message, Missing, Sample, Scored, Task, TextPart, Truth

QUESTION = "What is it?\nA. cat\n(B) Two dogs\nC) bird.\nD: 3"
ALL = [
    (McqConfig(), Task.mcq, "B"),
    (YesNoConfig(), Task.yes_no, "no"),
    (NumericConfig(), Task.numeric, "12"),
    (ExactConfig(), Task.text, "a cat"),
    (ExactConfig(), Task.region_label, "cat"),
    (AllMatchConfig(), Task.text, "a cat"),
    (AllMatchConfig(), Task.region_label, "cat"),
    (MathConfig(), Task.text, "x+1"),
    (MathConfig(), Task.numeric, "12"),
]


def sample(task, truth, **fields) -> Sample:
    return Sample(id="s7", task=task, images=(), truth=Truth(answer=truth), **fields)


def score_text(config, target, text) -> Scored | Missing:
    rollout = written_rollout("s7", text, [])
    context = ScoreContext(answer=parse_rollout(rollout, target))
    return config.build().score(rollout, target, context)


def score(config, target, body) -> Scored:
    scored = score_text(config, target, f"<think>t</think><answer>{body}</answer>")
    assert isinstance(scored, Scored)
    return scored


@pytest.mark.parametrize(("config", "task", "truth"), ALL)
def test_the_truth_is_worth_one_and_a_text_without_tags_nothing(config, task, truth) -> None:
    target = sample(task, truth)
    assert score(config, target, truth).value == 1.0
    for text in ("", truth, f"<answer>{truth}", f"<answer>{truth}</answer><answer>{truth}</answer>"):
        missed = score_text(config, target, text)
        assert isinstance(missed, Scored)
        assert (missed.value, missed.detail["readable"]) == (0.0, 0.0)
    assert score(config, target, "").value == 0.0
    assert config.build().tasks >= {task}


@pytest.mark.parametrize(("config", "task", "truth"), ALL)
@pytest.mark.parametrize("absent", [None, "", "  "])
def test_a_sample_without_truth_is_missing_and_named(config, task, truth, absent) -> None:
    missing = score_text(config, sample(task, absent), f"<answer>{truth}</answer>")
    assert missing == Missing("sample s7 has no true answer")


@pytest.mark.parametrize(("task", "truth"), [(Task.mcq, "A or B"), (Task.yes_no, "maybe")])
def test_a_truth_that_cannot_be_read_is_missing(task, truth) -> None:
    config = McqConfig() if task is Task.mcq else YesNoConfig()
    missing = score_text(config, sample(task, truth), f"<answer>{truth}</answer>")
    assert isinstance(missing, Missing)
    assert missing.reason == f"sample s7: its true answer cannot be read as {task.value}: {truth!r}"


@pytest.mark.parametrize(("config", "task", "truth"), ALL)
def test_terms_survive_pickling_and_odd_text(config, task, truth) -> None:
    term = pickle.loads(pickle.dumps(config.build()))
    target = sample(task, truth)
    for body in ("\ud800", "́" * 200_000, "9" * 200_000, "\\boxed{" * 9, "nan", "1e999", "%s{}\x00", "٣"):
        rollout = written_rollout("s7", f"<answer>{body}</answer>", [])
        assert term.score(rollout, target, ScoreContext(answer=parse_rollout(rollout, target))).value == 0.0


@pytest.mark.parametrize(
    ("truth", "body", "expected"),
    [
        ("B", "(B)", 1.0),  # worth 0 in the VLM-R1 release
        ("B", "B) cat", 1.0),  # worth 0 in the VLM-R1 release
        ("B", "b", 1.0),
        ("(b)", "Option B", 1.0),
        ("B", "C", 0.0),
        ("B", "A or B", 0.0),
        ("B", "two  DOGS.", 1.0),  # the text of option B
        ("B", "cat", 0.0),
        ("B", "B or so", 0.0),
        ("Two dogs", "B", 1.0),
        ("Two dogs", "A", 0.0),
        ("two dogs", "Two dogs", 1.0),
        ("C", "bird", 1.0),
        ("D", "3", 1.0),
        ("D", "4", 0.0),
        ("A", "A cat", 0.0),  # an article, and not the text "cat"
        ("A", "Apple", 0.0),
        ("E", "E", 1.0),  # not listed, but a letter
    ],
)
def test_mcq(truth, body, expected) -> None:
    assert score(McqConfig(), sample(Task.mcq, truth, question=QUESTION), body).value == expected


def test_mcq_without_listed_options_compares_what_is_written() -> None:
    assert score(McqConfig(), sample(Task.mcq, "B"), "two dogs").value == 0.0
    assert score(McqConfig(), sample(Task.mcq, "B"), "two dogs").detail == {"readable": 1.0, "letter": 0.0}
    assert score(McqConfig(), sample(Task.mcq, "B"), "B").detail == {"readable": 1.0, "letter": 1.0}


def test_options_are_read_from_user_turns_too() -> None:
    turns = (
        Message(role="assistant", parts=(TextPart("B. fish"),)),
        Message(role="user", parts=(TextPart("Which?\r\nA. cat\r\nB. dog"),)),
    )
    target = sample(Task.mcq, "B", messages=turns)
    assert score(McqConfig(), target, "dog").value == 1.0
    assert score(McqConfig(), target, "fish").value == 0.0
    assert listed_options(QUESTION) == {"A": "cat", "B": "Two dogs", "C": "bird", "D": "3"}
    assert listed_options("A cat. B.c") == {}


@pytest.mark.parametrize(
    ("truth", "body", "expected"),
    [
        ("yes", "Yes, it is", 1.0),
        ("Yes.", "yes", 1.0),
        ("no", "yes", 0.0),
        ("yes", "maybe", 0.0),  # neither found: equal, hence 1, in the VLM-R1 release
        ("no", "I know", 0.0),  # "know" contains "no"
        ("no", "not", 0.0),
        ("yes", "yes or no", 0.0),
        ("no", "yes or no", 0.0),
    ],
)
def test_yes_no(truth, body, expected) -> None:
    assert score(YesNoConfig(), sample(Task.yes_no, truth), body).value == expected


@pytest.mark.parametrize(
    ("truth", "body", "expected"),
    [
        ("100", "105", 1.0),  # |105 - 100| = 5 = 5 % of 100
        ("100", "95", 1.0),
        ("100", "105.0001", 0.0),
        ("0.7", "0.735", 1.0),  # 0.035 is 5 % of 0.7; in binary floats it is more
        ("-100", "-105", 1.0),
        ("-100", "105", 0.0),
        ("1,234", "1234 km", 1.0),
        ("0", "0", 1.0),
        ("0", "0.0001", 0.0),
        ("12", "12%", 1.0),
        ("1e308", "-1e308", 0.0),
        ("1234", "1243x", 1.0),  # 0.73 % off
        ("1234", "123", 0.0),  # similar as strings, which earns nothing
        ("1234", "12 34", 0.0),
        ("12", "twelve", 0.0),
        ("12", "12 or 13", 0.0),
    ],
)
def test_numeric(truth, body, expected) -> None:
    assert score(NumericConfig(), sample(Task.numeric, truth), body).value == expected


def test_numeric_settings() -> None:
    exactly = NumericConfig(rel_tol=0.0)
    assert score(exactly, sample(Task.numeric, "0.3"), "0.30").value == 1.0
    assert score(exactly, sample(Task.numeric, "100"), "100.001").value == 0.0
    within = NumericConfig(rel_tol=0.0, abs_tol=0.1)
    assert score(within, sample(Task.numeric, "0"), "0.1").value == 1.0
    assert score(within, sample(Task.numeric, "0"), "-0.11").value == 0.0
    share = NumericConfig(percent=Percent.fraction)
    assert score(share, sample(Task.numeric, "0.12"), "12%").value == 1.0
    assert score(share, sample(Task.numeric, "12%"), "0.12").value == 1.0
    assert score(share, sample(Task.numeric, "12"), "12%").value == 0.0
    assert score(NumericConfig(), sample(Task.numeric, "0.12"), "12%").value == 0.0


def test_a_true_text_among_numbers_is_compared_as_text() -> None:
    target = sample(Task.numeric, "N/A")
    assert score(NumericConfig(), target, "n/a") == Scored(1.0, {"readable": 0.0, "numeric_truth": 0.0})
    assert score(NumericConfig(), target, "0").value == 0.0
    assert score(NumericConfig(), sample(Task.numeric, "0"), "0").detail["numeric_truth"] == 1.0


@pytest.mark.parametrize(
    ("body", "exact", "all_match"),
    [
        ("A cat", 1.0, 1.0),
        ("a cat.", 0.0, 1.0),  # only all_match forgives a full stop
        ("a  cat", 1.0, 0.0),  # only exact forgives whitespace inside
        ("a cat!", 0.0, 0.0),
        ("a car", 0.0, 0.0),  # one letter off earns nothing
        ("cat", 0.0, 0.0),
        ("a cat..", 0.0, 0.0),
    ],
)
def test_exact_and_all_match(body, exact, all_match) -> None:
    for task in (Task.text, Task.region_label):
        assert score(ExactConfig(), sample(task, "a cat"), body).value == exact
        assert score(AllMatchConfig(), sample(task, "a cat"), body).value == all_match


def test_only_exact_forgives_unicode_forms() -> None:
    composed, decomposed = "caf\u00e9", "cafe\u0301"
    assert score(ExactConfig(), sample(Task.text, composed), decomposed).value == 1.0
    assert score(AllMatchConfig(), sample(Task.text, composed), decomposed).value == 0.0


@pytest.mark.parametrize(
    ("truth", "body", "expected"),
    [
        ("1/2", "0.5", 1.0),
        ("\\frac{1}{2}", "\\boxed{\\dfrac{2}{4}}", 1.0),
        ("2\\sqrt{2}", "sqrt(8)", 1.0),
        ("x^2+2x+1", "(x+1)^2", 1.0),
        ("x^2+2x+1", "(x-1)^2", 0.0),
        ("5", "x = 5", 1.0),
        ("5", "$5$", 1.0),
        ("5", "12.5\\cdot 0.4", 1.0),
        ("2\\pi", "2π", 1.0),
        ("\\log_2 8", "3", 1.0),
        ("1,2", "2,1", 1.0),
        ("(1,2)", "(2,1)", 0.0),
        ("2t", "2", 0.0),  # no unit is guessed from a letter
        ("cat", "act", 0.0),  # as products of letters these would be equal
        ("cat", "Cat", 1.0),
        ("5", "5, 6", 0.0),
        ("5", "5 or 6", 0.0),
        ("5", "\\pm 5", 0.0),
        ("5", "0/0", 0.0),
        ("5", "1/0", 0.0),
        ("5", "\\infty-\\infty", 0.0),
        ("5", "x = 4 = 5", 0.0),
        ("5", "55", 0.0),
        ("5", "__import__('os').getpid()", 0.0),
    ],
)
def test_math(truth, body, expected) -> None:
    assert score(MathConfig(), sample(Task.text, truth), body).value == expected


def test_math_on_numbers_reads_units_as_numeric_does() -> None:
    assert score(MathConfig(), sample(Task.numeric, "12"), "12 apples").value == 1.0
    assert score(MathConfig(), sample(Task.numeric, "\\sqrt{2}"), "2^{1/2}").value == 1.0
    assert score(MathConfig(), sample(Task.numeric, "12"), "12.5").value == 0.0


@pytest.mark.parametrize(
    "body", ["9^9^9^9", "9**9**9**9", "9^{9^{9^{9}}}", "(((9^9)^9)^9)^9", "99!" * 60, "99999999999\\log(13)"]
)
def test_endless_powers_are_not_evaluated(body) -> None:
    scored = score(MathConfig(), sample(Task.text, "5"), body)
    assert scored == Scored(0.0, {"readable": 1.0, "symbolic": 0.0, "timed_out": 0.0})


def test_slow_algebra_is_worth_nothing_and_not_missing(monkeypatch) -> None:
    def slow(answer, truth) -> bool:
        while True:
            try:
                time.sleep(0.001)
            except Exception:  # noqa: BLE001 - libraries do this
                continue

    monkeypatch.setattr(math_answer, "same_expression", slow)
    before = signal.getsignal(signal.SIGALRM)
    scored = score(MathConfig(timeout_s=0.05), sample(Task.text, "5"), "4+1")
    assert scored == Scored(0.0, {"readable": 1.0, "symbolic": 1.0, "timed_out": 1.0})
    assert signal.getsignal(signal.SIGALRM) is before
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)


def test_deadline_fires_again_when_it_is_swallowed() -> None:
    swallowed: list[TimeUp] = []

    def work() -> None:
        with deadline(0.02):
            while True:
                try:
                    while True:
                        time.sleep(0.001)
                except TimeUp as error:
                    if swallowed:
                        raise
                    swallowed.append(error)

    with pytest.raises(TimeUp):
        work()
    assert len(swallowed) == 1


def test_math_outside_the_main_thread() -> None:
    found: list[float] = []
    target = sample(Task.text, "1/2")
    thread = threading.Thread(target=lambda: found.append(score(MathConfig(), target, "0.5").value))
    thread.start()
    thread.join()
    assert found == [1.0]


@pytest.mark.parametrize(
    ("kind", "settings", "key"),
    [
        (NumericConfig, {"rel_tol": -0.1}, "rel_tol"),
        (NumericConfig, {"rel_tol": 1.0}, "rel_tol"),
        (NumericConfig, {"rel_tol": float("nan")}, "rel_tol"),
        (NumericConfig, {"abs_tol": -1.0}, "abs_tol"),
        (NumericConfig, {"abs_tol": float("inf")}, "abs_tol"),
        (MathConfig, {"timeout_s": 0.0}, "timeout_s"),
        (MathConfig, {"timeout_s": float("nan")}, "timeout_s"),
        (MathConfig, {"timeout_s": 61.0}, "timeout_s"),
        (McqConfig, {"weight": float("inf")}, "weight"),
    ],
)
def test_settings_are_checked(kind, settings, key) -> None:
    with pytest.raises(ConfigError) as error:
        kind(**settings)
    assert error.value.key == key
