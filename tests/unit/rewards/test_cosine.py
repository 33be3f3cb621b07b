"""cosine: the curve, whose word it takes for right, and the rubric around it."""

import pytest
from tests.golden.scenes import CAT, DOG, OVD, fenced, rollout_of, score

from groundrl.errors import ConfigError
from groundrl.rewards.base import Compat
from groundrl.rewards.cosine import CosineConfig
from groundrl.rewards.format import FormatConfig
from groundrl.rewards.rubric import RubricConfig
from groundrl.rewards.weighted_sum import WeightedSumConfig
from groundrl.types import Missing, Scored, Task


def paid(config, tokens, value) -> float:
    scored = score(config, OVD, rollout_of("any text", tokens=tokens), {config.of: Scored(value)})
    assert isinstance(scored, Scored)
    return scored.value


def test_sampled_tokens_of_all_turns_count_and_no_others() -> None:
    config = CosineConfig(max_length=100)
    scored = score(config, OVD, rollout_of("x " * 500, tokens=[20, 30]), {"weighted_sum": Scored(1.0)})
    # 50 of 100 tokens: half way between 1.0 and 0.5; as many observed tokens do not count
    assert scored == Scored(pytest.approx(0.75), {"tokens": 50, "right": 1})


def test_every_setting_moves_the_curve() -> None:
    config = CosineConfig(
        of="f1",
        threshold=0.3,
        right_start=2.0,
        right_end=4.0,
        wrong_start=-3.0,
        wrong_end=-1.0,
        max_length=10,
    )
    assert config.build().needs == ("f1",)
    # longer is better on both branches here; at 10 and beyond the end is reached
    assert [paid(config, [n], 0.3) for n in (0, 5, 10, 25)] == pytest.approx([2, 3, 4, 4])
    assert [paid(config, [n], 0.29) for n in (0, 5, 10, 25)] == pytest.approx([-3, -2, -1, -1])


def test_one_token_is_the_smallest_length() -> None:
    assert [paid(CosineConfig(max_length=1), [n], 1.0) for n in (0, 1, 7)] == pytest.approx([1, 0.5, 0.5])


def test_released_code_is_right_whatever_the_value_and_says_what_it_was() -> None:
    config = CosineConfig(max_length=10, compat=Compat.released_code)
    scored = score(config, OVD, rollout_of("", tokens=[15]), {"weighted_sum": Scored(0.1)})
    # cos(1.5 pi) = 0: half way back
    assert scored == Scored(pytest.approx(0.75), {"tokens": 15, "right": 0})


@pytest.mark.parametrize("compat", Compat)
def test_a_missing_term_makes_it_missing(compat) -> None:
    missing = Missing("the judge did not answer")
    scored = score(CosineConfig(compat=compat), OVD, rollout_of("", tokens=[5]), {"weighted_sum": missing})
    assert scored == missing


def test_in_a_rubric_it_stands_after_the_term_it_needs() -> None:
    terms = {
        "cosine": CosineConfig(max_length=100),
        "weighted_sum": WeightedSumConfig(),
        "format": FormatConfig(),
    }
    rubric = RubricConfig(terms=terms, task=Task.ovd).build()
    assert rubric.names.index("weighted_sum") < rubric.names.index("cosine")
    right = rubric.score(rollout_of(fenced(CAT, DOG), tokens=[50]), OVD)
    assert (right.terms["cosine"].value, right.total) == (pytest.approx(0.75), pytest.approx(2.75))
    wrong = rubric.score(rollout_of(fenced(CAT), tokens=[50]), OVD)  # weighted_sum .575
    assert (wrong.terms["cosine"].value, wrong.total) == (pytest.approx(-0.25), pytest.approx(1.325))


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (CosineConfig(of="f1"), "needs a term 'f1' that this rubric"),
        (CosineConfig(of="cosine"), "cycle"),
        (CosineConfig(tasks=[Task.ovd, Task.rec]), "does not cover rec"),
    ],
)
def test_rubrics_that_cannot_work(config, message) -> None:
    with pytest.raises(ConfigError, match=message):
        RubricConfig(terms={"cosine": config, "weighted_sum": WeightedSumConfig()}, task=Task.ovd).build()


def test_tasks_follow_the_term_it_needs() -> None:
    config = CosineConfig(of="format", tasks=list(Task), max_length=10)
    rubric = RubricConfig(terms={"cosine": config, "format": FormatConfig()}, task=Task.rec).build()
    assert rubric.covering(Task.mcq) == ("format", "cosine")


@pytest.mark.parametrize(
    ("settings", "key"),
    [
        ({"of": ""}, "of"),
        ({"threshold": float("nan")}, "threshold"),
        ({"right_start": float("inf")}, "right_start"),
        ({"right_end": float("nan")}, "right_end"),
        ({"wrong_start": -float("inf")}, "wrong_start"),
        ({"wrong_end": float("nan")}, "wrong_end"),
        ({"max_length": 0}, "max_length"),
        ({"tasks": []}, "tasks"),
        ({"wrong_end": 0.5, "compat": Compat.released_code}, "wrong_start"),
        ({"weight": float("inf")}, "weight"),
    ],
)
def test_bad_settings_name_their_key(settings, key) -> None:
    with pytest.raises(ConfigError) as caught:
        CosineConfig(**settings)
    assert caught.value.key == key
