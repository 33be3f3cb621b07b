"""Rules between groups."""

from __future__ import annotations

import pytest

from groundrl.config.compose import compose_run
from groundrl.config.invocation import Invocation
from groundrl.errors import ConfigError


def refused(*words: str, multirun: bool = False) -> ConfigError:
    config = compose_run(words)
    with pytest.raises(ConfigError) as error:
        config.check(Invocation(overrides=words, experiment=None, multirun=multirun))
    return error.value


def accepted(*words: str) -> None:
    compose_run(words).check(Invocation(overrides=words, experiment=None))


@pytest.mark.parametrize(
    ("words", "key"),
    [
        (("algorithm=eval_only", "dataset.train_size=3"), "dataset.train_size"),
        (("algorithm=eval_only", "checkpoint.every=3"), "checkpoint.every"),
        (("algorithm=eval_only", "model.lora.rank=8"), "model.lora.rank"),
        (("algorithm=eval_only", "+model.references.x=y"), "model.references.x"),
        (("algorithm=sft", "tracker.gallery_train_every=3"), "tracker.gallery_train_every"),
        (("algorithm=sft", "eval.sampled_k=0", "rollout.top_k=5"), "rollout.top_k"),
        (("algorithm.loss.clip_high=0.28",), "algorithm.loss.clip_high"),
        (("model.lora.alpha=8",), "model.lora.alpha"),
        (("model.lora.rank=4", "model.freeze_vision=true"), "model.freeze_vision"),
        (("reward=ap", "dataset.styles.word=1"), "dataset.styles.word"),
        (("dataset.none_fraction=0.2",), "dataset.none_fraction"),
        (("dataset.objects=[1,1]", "dataset.difficulty=0.5"), "dataset.difficulty"),
        (("prompt.separator=x",), "prompt.separator"),
        (("prompt.suffix=''", "prompt.suffix_place=BEFORE"), "prompt.suffix_place"),
        (("paths.root=a", "paths.output_dir=b"), "paths.root"),
        (("debug.plan_ranks=4",), "debug.plan_ranks"),
        (("model.architecture=x.json",), "model.architecture"),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)
def test_a_setting_that_would_be_ignored_is_refused(words: tuple[str, ...], key: str) -> None:
    error = refused(*words)
    assert error.key == key
    assert "would be ignored" in error.problem
    assert error.todo == "remove it"


@pytest.mark.parametrize(
    "words",
    [
        ("algorithm=sft", "rollout.top_k=5"),
        ("algorithm.num_iterations=2", "algorithm.loss.clip_high=0.28"),
        ("model.lora.rank=4", "model.lora.alpha=8"),
        ("reward=ap", "dataset.none_fraction=0.2", "prompt.separator=', '"),
        ("debug=plan", "debug.plan_ranks=4"),
        ("eval.metric=sampled/pass@4",),
        ("reward=odlength", "eval.metric=greedy/reward/odlength"),
        ("reward=ap", "~reward.terms.format"),
    ],
    ids=" ".join,
)
def test_the_same_settings_pass_where_they_matter(words: tuple[str, ...]) -> None:
    accepted(*words)


@pytest.mark.parametrize(
    ("words", "key", "problem"),
    [
        (("task=ovd",), "reward.terms.iou", "cannot score samples of task ovd"),
        (("reward=ap", "task=rec"), "reward.terms.ap", "cannot score samples of task rec"),
        (("+reward/term@reward.terms.ap=ap",), "reward.terms.ap", "cannot score samples of task rec"),
        (("dataset=shapes_ovd",), "task.name", "the data set's samples are of task ovd"),
        (("reward=ap", "dataset=shapes_rec"), "task.name", "the data set's samples are of task rec"),
        (("prompt=ovd",), "prompt.template", "has no {question}"),
        (("reward.terms.iou.weight=0", "reward.terms.format.weight=0"), "reward.terms", "all weights are zero"),
        (("eval.metric=iou",), "eval.metric", "must be greedy/NAME or sampled/NAME"),
        (("eval.metric=greedy/iuo",), "eval.metric", "is not measured in this run"),
        (("eval.metric=greedy/ap",), "eval.metric", "is not measured in this run"),
        (("eval.metric=sampled/pass@3",), "eval.metric", "is not measured in this run"),
        (("eval.sampled_k=0", "eval.metric=sampled/iou"), "eval.metric", "nothing is sampled"),
        (("reward=ap", "dataset.none_fraction=1"), "eval.metric", "is not measured in this run"),
        (("dataset=jsonl", "dataset.path=no/such.jsonl"), "dataset.path", "no such file"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else None,
)
def test_groups_that_do_not_go_together_are_refused(words: tuple[str, ...], key: str, problem: str) -> None:
    error = refused(*words)
    assert error.key == key
    assert problem in error.problem


def test_one_folder_for_many_runs_is_refused() -> None:
    assert refused("paths.output_dir=x", multirun=True).key == "paths.output_dir"
    accepted("paths.output_dir=x")


def test_a_resumed_run_takes_no_other_word() -> None:
    error = refused("resume=x", "seed=3")
    assert (error.key, error.got) == ("resume", "seed=3")
    accepted("resume=x")
