"""A pool of workers gives what this process gives, in order, whatever a term does to its worker."""

import os
import pickle
import textwrap
from pathlib import Path

import pytest

from groundrl.errors import ConfigError
from groundrl.parsing.answer import ParseStatus
from groundrl.rewards.custom import CustomConfig, load_function
from groundrl.rewards.format import FormatConfig
from groundrl.rewards.grader import CHUNK, Grader
from groundrl.rewards.grading import GradingConfig
from groundrl.rewards.iou import IouConfig
from groundrl.rewards.rubric import RubricConfig, TermError
from groundrl.rollout.written import written_rollout
from groundrl.types import ImageFrame, LabeledBox, Missing, Rollout, Sample, Scored, Task, Truth

FRAME = ImageFrame(original=(100, 100), processed=(100, 100))


def pair(number: int, *, x2: int = 10, text: str | None = None) -> tuple[Rollout, Sample]:
    truth = Truth(boxes=(LabeledBox(xyxy=(0, 0, 10, 10)),))
    sample = Sample(id=f"s{number}", task=Task.rec, images=(), truth=truth, question="x")
    text = f"<think>t</think><answer>[0, 0, {x2}, 10]</answer>" if text is None else text
    return written_rollout(sample.id, text, [FRAME], tokens=3), sample


def custom(tmp_path: Path, body: str, *, name: str = "fn") -> str:
    file = tmp_path / "my_reward.py"
    file.write_text(f"def {name}(rollout, sample, context):\n{textwrap.indent(body, '    ')}\n", "utf-8")
    return f"{file}:{name}"


def rubric_config(path: str) -> RubricConfig:
    return RubricConfig(terms={"iou": IouConfig(), "own": CustomConfig(path=path), "format": FormatConfig()})


def test_workers_give_the_same_in_the_same_order(tmp_path: Path) -> None:
    path = custom(tmp_path, "return len(rollout.text) / 100")
    rubric = rubric_config(path).build()
    pairs = [pair(n, x2=1 + n % 9) for n in range(CHUNK + 5)]
    here = Grader(rubric).grade(pairs, progress=0.5)
    pool = Grader(rubric, GradingConfig(workers=2))
    try:
        there = pool.grade(pairs, progress=0.5)
        again = pool.grade(pairs[:1])
    finally:
        pool.close()
    assert [one.breakdown for one in here] == [one.breakdown for one in there]
    assert [one.answer for one in here] == [one.answer for one in there]
    assert [one.sample.id for one in there] == [f"s{n}" for n in range(CHUNK + 5)]
    assert there[3].breakdown.terms["iou"] == Scored(0.4, {"iou": 0.4})
    assert again[0].breakdown == here[0].breakdown


def test_a_hanging_and_a_dying_rollout_are_missing_and_the_others_are_not(tmp_path: Path) -> None:
    body = """\
import os, time
if sample.id == "s1":
    time.sleep(60)
if sample.id == "s3":
    os._exit(7)
return 1"""
    pool = Grader(rubric_config(custom(tmp_path, body)).build(), GradingConfig(workers=1, timeout_s=0.5))
    try:
        graded = pool.grade([pair(n) for n in range(5)])
    finally:
        pool.close()
    totals = [one.breakdown.total for one in graded]
    assert totals == [3.0, None, 3.0, None, 3.0]
    slow, dead = graded[1].breakdown.terms["own"], graded[3].breakdown.terms["own"]
    assert isinstance(slow, Missing)
    assert isinstance(dead, Missing)
    assert "0.5 s" in slow.reason
    assert "exit code 7" in dead.reason
    assert graded[1].answer.status is ParseStatus.OK
    assert graded[1].breakdown.terms.keys() == graded[0].breakdown.terms.keys()


def test_what_a_users_function_raises_arrives_with_the_sample_named(tmp_path: Path) -> None:
    rubric = rubric_config(custom(tmp_path, "return 1 / 0")).build()
    with pytest.raises(ZeroDivisionError) as caught:
        Grader(rubric).grade([pair(4)])
    assert any("sample s4" in note for note in caught.value.__notes__)
    pool = Grader(rubric, GradingConfig(workers=1))
    try:
        with pytest.raises(ZeroDivisionError):
            pool.grade([pair(4)])
    finally:
        pool.close()


@pytest.mark.parametrize(("body", "named"), [("return None", "NoneType"), ("return float('nan')", "nan")])
def test_a_users_function_must_give_a_finite_reward(tmp_path: Path, body: str, named: str) -> None:
    with pytest.raises(TermError, match=named):
        Grader(rubric_config(custom(tmp_path, body)).build()).grade([pair(0)])


def test_a_users_function_may_miss_and_may_explain(tmp_path: Path) -> None:
    body = """\
from groundrl.types import Missing, Scored
return Scored(0.5, {"x": 2.0}) if context.answer.boxes else Missing("no box")"""
    rubric = rubric_config(custom(tmp_path, body)).build()
    good, bad = Grader(rubric).grade([pair(0), pair(1, text="?")])
    assert good.breakdown.terms["own"] == Scored(0.5, {"x": 2.0})
    assert (bad.breakdown.terms["own"], bad.breakdown.total) == (Missing("no box"), None)
    assert pickle.loads(pickle.dumps(rubric)).score(*pair(0)) == good.breakdown


@pytest.mark.parametrize(
    ("path", "problem"),
    [
        ("my_reward", "must name a file and a function"),
        ("my_reward.py", "must name a file and a function"),
        ("nowhere.py:fn", "no such file"),
        ("my_reward.py:other", "it defines fn"),
        ("my_reward.py:fn()", "must name a file and a function"),
    ],
)
def test_a_wrong_path_says_what_to_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: str, problem: str
) -> None:
    custom(tmp_path, "return 0")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError, match=problem):
        load_function(path)


def test_a_function_with_other_arguments_is_refused(tmp_path: Path) -> None:
    (tmp_path / "my_reward.py").write_text("def fn(text): return 1.0\n", "utf-8")
    with pytest.raises(ConfigError, match="rollout, sample, context"):
        load_function(str(tmp_path / "my_reward.py:fn"))


@pytest.mark.parametrize("settings", [{"workers": -1}, {"timeout_s": 0}, {"timeout_s": float("nan")}])
def test_grading_settings_are_checked(settings: dict[str, float]) -> None:
    with pytest.raises(ConfigError):
        GradingConfig(**settings)


def test_no_worker_is_left(tmp_path: Path) -> None:
    path = custom(tmp_path, "import os\nreturn os.getpid()")
    pool = Grader(rubric_config(path).build(), GradingConfig(workers=1))
    (graded,) = pool.grade([pair(0)])
    term = graded.breakdown.terms["own"]
    assert isinstance(term, Scored)
    pid = int(term.value)
    assert pid != os.getpid()
    pool.close()
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
