"""The rubric: routing, order, totals, missing terms, and the settings it refuses."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import ClassVar, Never

import pytest
from hydra import compose, initialize_config_dir
from hydra.errors import HydraException
from omegaconf import OmegaConf

from groundrl.errors import ConfigError
from groundrl.rewards.ap import ApConfig
from groundrl.rewards.base import TermConfig
from groundrl.rewards.format import FormatConfig
from groundrl.rewards.iou import IouConfig
from groundrl.rewards.odlength import OdLengthConfig
from groundrl.rewards.rubric import Rubric, RubricConfig, TermError
from groundrl.types import (
    CoordinateSpace,
    ImageFrame,
    LabeledBox,
    Missing,
    Rollout,
    RolloutStatus,
    Sample,
    Scored,
    Task,
    Truth,
)

FRAME = ImageFrame(original=(640, 480), processed=(644, 476))


@dataclass
class Stub:
    """A term that returns a prepared value and records what it was shown."""

    result: Scored | Missing = field(default_factory=lambda: Scored(1.0))
    tasks: frozenset = frozenset(Task)
    needs: tuple = ()
    seen: list = field(default_factory=list)

    def score(self, rollout, sample, context) -> Scored | Missing:
        self.seen.append(context)
        return self.result


def make_sample(task=Task.rec) -> Sample:
    truth = Truth(boxes=(LabeledBox(xyxy=(0, 0, 320, 240), label="cat"),))
    return Sample(id="s", task=task, images=(), truth=truth)


def make_rollout(text, space=CoordinateSpace.REL1000) -> Rollout:
    return Rollout(
        sample_id="s",
        group=0,
        index=0,
        segments=[],
        status=RolloutStatus.FINISHED,
        text=text,
        frames=(FRAME,),
        coordinate_space=space,
    )


RIGHT = "<think>t</think><answer>[0, 0, 500, 500]</answer>"


def test_total_is_the_weighted_sum_and_can_be_explained() -> None:
    config = RubricConfig(terms={"iou": IouConfig(weight=2.0), "format": FormatConfig(weight=0.5)})
    result = config.build().score(make_rollout(RIGHT), make_sample())
    assert result.terms["iou"] == Scored(1.0, {"iou": 1.0})
    assert result.terms["format"] == Scored(1.0, {"tags": 1.0, "body": 1.0})
    assert result.weights == {"iou": 2.0, "format": 0.5}
    assert (result.total, result.task, result.parse_status) == (2.5, Task.rec, "ok")
    half = config.build().score(make_rollout("<answer>[0, 0, 250, 500]</answer>"), make_sample())
    assert half.total == 2.0 * 0.5
    bad = config.build().score(make_rollout("<answer>hm</answer>"), make_sample())
    assert (bad.total, bad.parse_status) == (0.0, "bad_json")


def test_the_space_of_the_rollout_is_used() -> None:
    rubric = RubricConfig(terms={"iou": IouConfig()}).build()
    text = "<answer>[0, 0, 322, 238]</answer>"
    assert rubric.score(make_rollout(text, CoordinateSpace.PIXEL_RESIZED), make_sample()).total == 1.0
    assert rubric.score(make_rollout(text, CoordinateSpace.REL1000), make_sample()).total < 0.5


def test_terms_are_routed_by_the_task_of_the_sample() -> None:
    terms = {"iou": IouConfig(), "odlength": OdLengthConfig(), "format": FormatConfig(weight=0.5)}
    rubric = RubricConfig(terms=terms).build()
    rec = rubric.score(make_rollout(RIGHT), make_sample())
    assert set(rec.terms) == set(rec.weights) == {"iou", "format"}
    boxes = '```json\n[{"bbox_2d": [0, 0, 500, 500], "label": "Cat"}]\n```'
    ovd = rubric.score(make_rollout(f"<think>t</think><answer>{boxes}</answer>"), make_sample(Task.ovd))
    assert set(ovd.terms) == {"odlength", "format"}
    assert ovd.total == 1.5
    mcq = rubric.score(make_rollout(RIGHT), make_sample(Task.mcq))
    assert (set(mcq.terms), mcq.total) == ({"format"}, 0.5)


def test_a_term_of_weight_zero_is_reported_without_effect() -> None:
    terms = {"iou": IouConfig(), "format": FormatConfig(weight=0.0)}
    result = RubricConfig(terms=terms).build().score(make_rollout(RIGHT), make_sample())
    assert result.total == 1.0
    assert result.terms["format"] == Scored(1.0, {"tags": 1.0, "body": 1.0})


def test_needs_are_scored_first_and_seen() -> None:
    first, second = Stub(Scored(0.25)), Stub(Scored(0.5), needs=("base",))
    rubric = Rubric({"late": second, "base": first}, {"late": 1.0, "base": 1.0}, task=Task.rec)
    assert rubric.names == ("base", "late")
    result = rubric.score(make_rollout(RIGHT), make_sample(), progress=0.5, verdicts={"judge": None})
    assert result.total == 0.75
    assert first.seen[0].values == {}
    assert second.seen[0].values == {"base": Scored(0.25)}
    assert (second.seen[0].progress, second.seen[0].verdicts) == (0.5, {"judge": None})
    assert first.seen[0].answer is second.seen[0].answer  # parsed once


def test_order_is_otherwise_that_of_the_rubric() -> None:
    terms = {name: Stub(needs=needs) for name, needs in {"d": ("a", "c"), "c": (), "b": (), "a": ()}.items()}
    rubric = Rubric(terms, dict.fromkeys(terms, 1.0), task=Task.rec)
    assert rubric.names == ("c", "b", "a", "d")


@pytest.mark.parametrize(("weight", "total"), [(1.0, None), (-0.5, None), (0.0, 0.5)])
def test_a_missing_term_makes_the_total_unknown(weight, total) -> None:
    terms = {"judge": Stub(Missing("no answer")), "iou": Stub(Scored(0.5))}
    rubric = Rubric(terms, {"judge": weight, "iou": 1.0}, task=Task.rec)
    result = rubric.score(make_rollout(RIGHT), make_sample())
    assert result.total == total
    assert result.terms["judge"] == Missing("no answer")
    assert result.terms["iou"] == Scored(0.5)


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_a_value_that_is_not_finite_is_a_bug(value) -> None:
    rubric = Rubric({"x": Stub(Scored(value))}, {"x": 1.0}, task=Task.rec)
    with pytest.raises(TermError, match=r"term 'x' gave (nan|inf)"):
        rubric.score(make_rollout(RIGHT), make_sample())


def test_tasks_without_a_term_are_refused_at_the_start() -> None:
    rubric = RubricConfig(terms={"iou": IouConfig(), "format": FormatConfig(weight=0.0)}).build()
    rubric.check_tasks([Task.rec, Task.rec])
    with pytest.raises(ConfigError, match=r"covers task 'ovd'.*iou \(weight 1\) covers rec"):
        rubric.check_tasks([Task.rec, Task.ovd])
    only_iou = RubricConfig(terms={"iou": IouConfig()}).build()
    with pytest.raises(ConfigError, match="covers task 'mcq'"):
        only_iou.score(make_rollout(RIGHT), make_sample(Task.mcq))


@pytest.mark.parametrize(
    ("terms", "weights", "message"),
    [
        ({}, {}, "at least one term"),
        ({"a": Stub()}, {"a": 0.0}, "all weights are zero"),
        ({"a": Stub(needs=("b",)), "c": Stub()}, {"a": 1, "c": 1}, "'b' that this rubric.*a, c"),
        ({"a": Stub(needs=("b",)), "b": Stub(needs=("a",))}, {"a": 1, "b": 1}, "cycle"),
        ({"a": Stub(needs=("a",))}, {"a": 1}, "cycle"),
        (
            {"a": Stub(needs=("b",)), "b": Stub(tasks=frozenset({Task.rec, Task.ovd}))},
            {"a": 1, "b": 1},
            "does not cover mcq, numeric",
        ),
        ({"a": Stub(tasks=frozenset({Task.ovd}))}, {"a": 1}, "covers task 'rec'"),
    ],
)
def test_rubrics_that_cannot_work(terms, weights, message) -> None:
    with pytest.raises(ConfigError, match=message):
        Rubric(terms, weights, task=Task.rec)


def test_an_error_of_a_term_names_the_term() -> None:
    @dataclass(kw_only=True, slots=True)
    class Broken(TermConfig):
        kind: ClassVar[str] = "broken"

        def build(self) -> Never:
            raise ConfigError("scale", "is wrong")

    with pytest.raises(ConfigError) as caught:
        RubricConfig(terms={"mine": Broken()}).build()
    assert caught.value.key == "terms.mine.scale"
    with pytest.raises(ConfigError) as caught:
        RubricConfig(terms={"plain": TermConfig()}).build()
    assert caught.value.key == "terms.plain"


FILES = {
    "config.yaml": "defaults:\n  - reward: mixed\n  - _self_\n",
    "reward/mixed.yaml": (
        "defaults:\n  - /schema/reward/rubric@_here_\n  - term@terms.ap: ap\n  - term@terms.iou: iou\n"
        "  - _self_\ntask: ovd\nterms:\n  iou: {weight: 0.5}\n"
    ),
    "reward/term/ap.yaml": "defaults:\n  - /schema/reward/term/ap@_here_\n",
    "reward/term/iou.yaml": "defaults:\n  - /schema/reward/term/iou@_here_\n  - _self_\n",
}


@pytest.fixture
def composed(tmp_path) -> Callable[..., RubricConfig]:
    for name, text in FILES.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def run(*overrides) -> RubricConfig:
        with initialize_config_dir(str(tmp_path), version_base="1.3"):
            return OmegaConf.to_object(compose("config", list(overrides)).reward)

    return run


def test_hydra_composes_a_rubric_of_typed_terms(composed) -> None:
    config = composed("reward.terms.ap.thresholds=[0.5,0.75]", "reward.terms.iou.binary_at=0.5")
    expected = {
        "ap": ApConfig(thresholds=[0.5, 0.75]),
        "iou": IouConfig(binary_at=0.5, weight=0.5),
    }
    assert config == RubricConfig(terms=expected, task=Task.ovd)
    assert config.build().names == ("ap", "iou")


def test_a_misspelt_setting_is_an_error(composed) -> None:
    with pytest.raises(HydraException, match="treshold"):
        composed("reward.terms.ap.treshold=[0.5]")
