"""Rules between groups."""

from __future__ import annotations

from pathlib import Path

import pytest
from PIL import Image

from groundrl.config.compose import compose_run
from groundrl.config.invocation import Invocation
from groundrl.errors import ConfigError
from groundrl.run_checks import ignored


def refused(*words: str, multirun: bool = False) -> ConfigError:
    config = compose_run(words)
    with pytest.raises(ConfigError) as error:
        config.check(Invocation(overrides=words, experiment=None, multirun=multirun))
    return error.value


def accepted(*words: str) -> None:
    compose_run(words).check(Invocation(overrides=words, experiment=None))


ALWAYS = {"debug.plan_ranks", "model.architecture"}
ONE_UPDATE = {"algorithm.loss.clip_low", "algorithm.loss.clip_high"}
NO_ADAPTERS = {"model.lora.alpha", "model.lora.dropout"}
ADAPTERS = {"model.freeze_vision", "model.freeze_projector"}
REC = {"dataset.negatives", "dataset.none_fraction", "prompt.separator"}
OVD = {"dataset.styles"}
NO_TRAINING = {
    "checkpoint", "dataset.train_size", "eval.every", "eval.every_samples", "model.freeze_projector",
    "model.freeze_vision", "model.gradient_checkpointing", "model.lora", "model.references",
    "model.train_last_layers",
}  # fmt: skip


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("", ALWAYS | ONE_UPDATE | NO_ADAPTERS | REC),
        ("reward=ap model.lora.rank=4 algorithm.num_iterations=2", ALWAYS | ADAPTERS | OVD),
        ("algorithm=sft eval.sampled_k=0 debug=plan", NO_ADAPTERS | REC | {
            "tracker.gallery_train_every", "rollout.temperature", "rollout.top_k", "rollout.top_p",
            "rollout.max_lag",
        }),
        ("algorithm=eval_only dataset.objects=[1,1]", ALWAYS | NO_ADAPTERS | REC | NO_TRAINING | {
            "tracker.gallery_train_every", "dataset.difficulty", "dataset.max_overlap", "rollout.max_lag",
        }),
        ("prompt.suffix='' algorithm.mini_batches=2 paths.output_dir=x", ALWAYS | NO_ADAPTERS | REC | {
            "prompt.suffix_place", "paths.root",
        }),
    ],
)  # fmt: skip
def test_settings_without_effect(words: str, expected: set[str]) -> None:
    found = {key for key, _ in ignored(compose_run(words.split()))}
    assert found == expected | {"reward.grading.timeout_s", "eval.during", "eval.on_missing"}


def test_benchmarks_alone_are_evaluated_without_training() -> None:
    """Then the settings of the held-out split do nothing; with training all of them count."""
    heldout = {"eval.samples", "eval.sampled_k", "eval.metric"}
    words = ["+eval/benchmark@eval.benchmarks.x=own", "eval.benchmarks.x.dataset.path=x"]
    found = {key for key, _ in ignored(compose_run(words))}
    assert not found & {*heldout, "eval.during", "eval.on_missing"}
    found = {key for key, _ in ignored(compose_run([*words, "algorithm=eval_only"]))}
    assert heldout <= found


def test_the_data_folder_is_refused_where_nothing_is_looked_for_in_it(tmp_path: Path) -> None:
    error = refused(f"paths.data={tmp_path}")
    assert (error.key, error.todo) == ("paths.data", "remove it")
    Image.new("RGB", (64, 64)).save(tmp_path / "a.png")
    line = '{{"image": "a.png", "question": "thing {0}", "boxes": [[1, 2, 30, 40]]}}'
    (tmp_path / "rows.jsonl").write_text("\n".join(line.format(number) for number in range(9)))
    file = "${paths.data}/rows.jsonl"
    words = ("dataset=jsonl", f"dataset.path={file}", f"dataset.heldout_path={file}")
    accepted(*words, f"paths.data={tmp_path}")


@pytest.mark.parametrize(
    ("words", "key"),
    [
        (("algorithm=eval_only", "checkpoint.every=3"), "checkpoint.every"),
        (("algorithm=eval_only", "+model.references.x=y"), "model.references.x"),
        (("reward=ap", "dataset.styles.word=1"), "dataset.styles.word"),
        (("algorithm.loss.clip_high=0.28",), "algorithm.loss.clip_high"),
    ],
)
def test_setting_one_of_them_is_refused(words: tuple[str, ...], key: str) -> None:
    error = refused(*words)
    assert error.key == key
    assert "would be ignored" in error.problem
    assert (error.got, error.todo) == (words[-1].partition("=")[2], "remove it")


@pytest.mark.parametrize(
    "words",
    [
        ("algorithm.num_iterations=2", "algorithm.loss.clip_high=0.28", "eval.metric=sampled/pass@4"),
        ("reward=odlength", "dataset.none_fraction=0.2", "eval.metric=greedy/reward/odlength"),
        ("reward=ap", "~reward.terms.format", "prompt.separator=x", "debug=plan", "debug.plan_ranks=4"),
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
        (
            ("reward.terms.iou.weight=0", "reward.terms.format.weight=0"),
            "reward.terms",
            "all weights are zero",
        ),
        (("eval.metric=iou",), "eval.metric", "must be greedy/NAME or sampled/NAME"),
        (("eval.metric=greedy/iuo",), "eval.metric", "is not measured in this run"),
        (("eval.metric=verified/iou",), "eval.metric", "no answer is verified in this run"),
        (
            ("rollout=self_verify", "eval.metric=verified/ap"),
            "eval.metric",
            "is not measured in this run",
        ),
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
