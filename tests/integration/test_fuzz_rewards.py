"""Five thousand generated and mutated answers under every reward option; and would the fuzzer notice?"""

from __future__ import annotations

import json
import random
from dataclasses import dataclass, replace

import pytest
from scripts import fuzz_rewards
from scripts.fuzz_answers import MUTATIONS, good, long_run
from scripts.fuzz_rewards import Variant, check, fuzz, make_case, make_samples

from groundrl.errors import UserError
from groundrl.parsing.answer import parse_answer
from groundrl.rewards.base import ScoreContext
from groundrl.rewards.rubric import Rubric
from groundrl.types import Rollout, Sample, Scored, Task

SAMPLES = make_samples()


@pytest.mark.slow
def test_no_answer_breaks_a_reward() -> None:
    counts = fuzz(5000, seed=20)
    assert counts["answers"] == 5000
    assert counts["gradings"] > 10 * 5000
    assert counts["missing"] == 0
    statuses = {name for name in counts if name.startswith("parse/")}
    assert len(statuses) >= 12, (
        statuses
    )  # the answers reach every way a parse can end but tag_order, now and then
    assert counts["parse/ok"] > 500
    assert counts["parse/truncated"] > 300


def test_good_answers_are_good_and_mutations_are_not_idle() -> None:
    rng = random.Random(0)
    readable = changed = 0
    for number in range(600):
        sample = rng.choice(SAMPLES[(Task.ovd, Task.rec, Task.point)[number % 3]])
        text = good(sample, rng)
        readable += parse_answer(text, sample.task, truncated=False).status not in ("bad_json", "no_box")
        changed += MUTATIONS[number % len(MUTATIONS)](text, rng) != text
    assert readable > 550
    assert changed > 500
    assert len(long_run("abc", rng)) > 90_000


def test_an_answer_is_a_function_of_seed_and_number() -> None:
    assert make_case(3, 1, SAMPLES).rollout.text == make_case(3, 1, SAMPLES).rollout.text
    assert len({make_case(number, 1, SAMPLES).rollout.text for number in range(50)}) > 40
    assert make_case(3, 1, SAMPLES).rollout.text != make_case(3, 2, SAMPLES).rollout.text


@dataclass(slots=True)
class Fragile:
    """Raises, or is never the same, or is not finite, on texts that hold a mark."""

    fault: str
    calls: int = 0

    tasks = frozenset(Task)
    needs = ()

    def score(self, rollout: Rollout, sample: Sample, context: ScoreContext) -> Scored:
        self.calls += 1
        if "mark" not in rollout.text:
            return Scored(0.0)
        if self.fault == "raises":
            raise ZeroDivisionError
        return Scored(float("nan") if self.fault == "not finite" else float(self.calls))


@pytest.mark.parametrize(
    ("fault", "error"),
    [("raises", ZeroDivisionError), ("not finite", UserError), ("changes", AssertionError)],
)
def test_a_fault_is_noticed_and_its_answer_is_saved(fault, error, monkeypatch, tmp_path, capsys) -> None:
    saved = tmp_path / "new" / "fuzz.json"
    monkeypatch.setattr(fuzz_rewards, "SAVED", saved)
    rubric = Rubric({"fragile": Fragile(fault)}, {"fragile": 1.0}, task=Task.rec)
    variant = Variant(name="fragile", salvage=False, rubric=rubric)
    case = make_case(5, 0, SAMPLES)
    check(replace(case, rollout=replace(case.rollout, text="fine")), variant)
    assert not saved.exists()
    with pytest.raises(error):
        check(replace(case, rollout=replace(case.rollout, text="mark \ud800")), variant)
    record = json.loads(saved.read_text("utf-8"))
    assert (record["index"], record["text"], record["variant"]) == (5, "mark \ud800", "fragile")
    assert "mark \\ud800" in capsys.readouterr().out
