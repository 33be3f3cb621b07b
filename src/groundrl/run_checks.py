"""Rules that hold between groups; each refuses a combination that would be ignored or cannot work.

Nothing here needs weights or torch, so a whole sweep is checked before its first job starts.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from groundrl.config.invocation import Invocation
from groundrl.config.words import parted
from groundrl.data.base import DatasetConfig, SampleSource, Split
from groundrl.data.coco import CocoConfig, Subset
from groundrl.data.described import DescribedConfig, Names
from groundrl.data.shapes import DESCRIBING, ShapesConfig
from groundrl.data.world import SceneConfig
from groundrl.errors import ConfigError
from groundrl.evaluation.benchmarks import load_benchmarks
from groundrl.evaluation.detection import COCO_SIZES
from groundrl.evaluation.metrics import SampleResult, summarise
from groundrl.learner.algorithms import EvalOnlyConfig, GRPOConfig, SFTConfig
from groundrl.rewards.rubric import Rubric
from groundrl.rollout.written import written_rollout
from groundrl.tracking.base import HELD_OUT, Prefix
from groundrl.types import ImageFrame, Rollout, Sample, Task
from groundrl.world import World

if TYPE_CHECKING:
    from groundrl.run_config import RunConfig


def check_run(config: RunConfig, invocation: Invocation) -> None:
    """Raise ConfigError on the first rule that is broken."""
    if config.resume is not None:
        _resume(invocation)
        return
    unused = list(ignored(config))
    if not config.eval.benchmarks and not _reads_data(config, invocation):
        unused.append(("paths.data", "there are no benchmarks to look for in it (eval=ovd, rec or qa)"))
    for key, why in unused:
        for word in invocation.overrides:
            name, value = parted(word)
            if name == key or name.startswith((f"{key}.", f"{key}/")):
                raise ConfigError(name, f"would be ignored: {why}", got=value or None, todo="remove it")
    if invocation.multirun and config.paths.output_dir is not None:
        raise ConfigError(
            "paths.output_dir",
            "is one folder, and the runs of -m need one each",
            got=config.paths.output_dir,
            todo="use paths.root=FOLDER, which names a folder per run",
        )
    _processes(config, World.of())
    rubric = at("reward", config.reward.build)
    source = at("dataset", lambda: config.dataset.build(Split.TRAIN))
    _tasks(config, rubric, source)
    load_benchmarks(config.eval, config.task.name, config.prompt)
    _metric(config, rubric)


def _reads_data(config: RunConfig, invocation: Invocation) -> bool:
    """Whether the data set lies in `paths.data`, by a word or by its own option."""
    files = json.dumps(asdict(config.dataset))
    inside = f'"{json.dumps(config.paths.data)[1:-1]}/'
    return inside in files or any("${paths.data}" in word for word in invocation.overrides)


def at(key: str, build: Callable[[], Any]) -> Any:
    """`build()`, its ConfigError placed under `key` unless it names the full key itself."""
    try:
        return build()
    except ConfigError as error:
        raise error if error.key.startswith(f"{key}.") else error.at(key) from None


def _resume(invocation: Invocation) -> None:
    others = [word for word in invocation.overrides if parted(word)[0] != "resume"]
    if others:
        raise ConfigError(
            "resume",
            "a resumed run keeps its own settings, so this word would be ignored",
            got=others[0],
            todo="remove it; to go on with other settings start a run with model.init_from=RUN_DIR/best",
        )


def _processes(config: RunConfig, world: World) -> None:
    """A batch must be shared out evenly among the processes of a run."""
    algorithm = config.algorithm
    for kind, key in ((GRPOConfig, "prompts_per_step"), (SFTConfig, "batch_size")):
        if isinstance(algorithm, kind) and (count := getattr(algorithm, key)) % world.size:
            todo = f"use a multiple of {world.size}"
            problem = f"cannot be shared out among {world.size} processes"
            raise ConfigError(f"algorithm.{key}", problem, got=count, todo=todo)


def _tasks(config: RunConfig, rubric: Rubric, source: SampleSource) -> None:
    """Reward, data set and prompt must be about the same task; a term that never applies would be ignored."""
    tasks = source.tasks()
    asked = ", ".join(sorted(tasks))
    if config.task.name not in tasks:
        raise ConfigError(
            "task.name",
            f"the data set's samples are of task {asked}",
            got=str(config.task.name),
            todo="choose the task by its reward (iou_rec: rec; odlength: ovd), or write task=...",
        )
    at("reward", lambda: rubric.check_tasks(tasks))
    used = {name for task in tasks for name in rubric.covering(task)}
    for name in rubric.names:
        if name not in used and not config.reward.by_task:
            raise ConfigError(
                f"reward.terms.{name}",
                f"would be ignored: it cannot score samples of task {asked}",
                todo="choose another reward, or leave out the words that choose task or data set",
            )
    config.prompt.build().check_tasks(tasks)


def _metric(config: RunConfig, rubric: Rubric) -> None:
    """`eval.metric` must be one that this run's evaluation will measure."""
    name, k = config.eval.metric, config.eval.sampled_k
    prefix, _, leaf = name.partition("/")
    if prefix not in HELD_OUT or not leaf:
        forms = " or ".join(f"{one}/NAME" for one in HELD_OUT)
        raise ConfigError("eval.metric", f"must be {forms}", got=name, todo="e.g. greedy/iou")
    if prefix == "verified" and config.loop() is None:
        todo = "use greedy/NAME, rollout=self_verify, or verify@eval.verify=loop"
        raise ConfigError("eval.metric", "no answer is verified in this run", got=name, todo=todo)
    if prefix == "sampled" and k == 0:
        problem = "eval.sampled_k is 0, so nothing is sampled"
        raise ConfigError("eval.metric", problem, got=name, todo="use greedy/NAME")
    measured = {f"{prefix}/reward/{term}" for term in rubric.names}
    measured |= set(_measured(config, rubric, k if prefix == "sampled" else 1))
    if name not in measured:
        usual = sorted(one for one in measured if "/parse/" not in one and "_missing_" not in one)
        todo = f"choose one of {', '.join(usual)}"
        raise ConfigError("eval.metric", "is not measured in this run", got=name, todo=todo)


def _measured(config: RunConfig, rubric: Rubric, k: int) -> list[str]:
    """The names that evaluating the samples the best checkpoint is chosen on gives, with k empty answers.

    Some metrics need a true box, others none, so one sample of either kind is looked at; which sizes of boxes
    the others hold is not.
    """
    source = config.dataset.build(Split.HELDOUT)
    count = min(config.eval.samples, config.eval.every_samples, source.size or config.eval.samples)
    kinds: dict[bool, Sample] = {}
    for index in range(count):
        sample = source.sample(index)
        kinds.setdefault(bool(sample.truth.boxes), sample)
        if len(kinds) == 2 or (sample.task is not Task.ovd and index):
            break
    results = [
        SampleResult.of(
            [rubric.grade(_silent(sample, index), sample) for index in range(k)],
            [()] if config.eval.metric.startswith("verified/") else (),
        )
        for sample in kinds.values()
    ]
    prefix: Prefix = next(one for one in HELD_OUT if config.eval.metric.startswith(f"{one}/"))
    names = list(summarise(results, prefix=prefix, resamples=0))
    sizes = COCO_SIZES if f"{prefix}/ap" in names else ()
    return [*names, *(f"{prefix}/{size}" for size in sizes)]


def _silent(sample: Sample, index: int) -> Rollout:
    """A rollout that says nothing."""
    frames = [ImageFrame(original=image.size, processed=image.size) for image in sample.images]
    return written_rollout(sample.id, "", frames, index=index)


def ignored(config: RunConfig) -> Iterator[tuple[str, str]]:
    """Settings that the rest of the configuration makes meaningless: (key, why)."""
    algorithm = config.algorithm
    if isinstance(algorithm, EvalOnlyConfig):
        for key in (
            "dataset.train_size", "eval.every", "eval.every_samples", "checkpoint", "model.lora",
            "model.references", "model.freeze_vision", "model.freeze_projector",
            "model.gradient_checkpointing", "model.train_last_layers",
        ):  # fmt: skip
            yield key, "algorithm=eval_only does not train"
        if config.eval.benchmarks:
            for key in ("eval.samples", "eval.sampled_k", "eval.metric"):
                yield key, "algorithm=eval_only with benchmarks evaluates these alone, greedily"
    if not isinstance(algorithm, GRPOConfig):
        yield "tracker.gallery_train_every", "only grpo draws training rollouts to show"
        yield "rollout.max_lag", "only grpo draws rollouts to learn from"
        if config.eval.sampled_k == 0:
            for key in ("rollout.temperature", "rollout.top_k", "rollout.top_p"):
                yield key, "only greedy evaluation draws tokens in this run"
    elif algorithm.num_iterations * algorithm.mini_batches == 1 and (
        config.rollout.max_lag == 0 or algorithm.correction.weighs
    ):
        for key in algorithm.loss.bounds():
            yield f"algorithm.loss.{key}", "with one update a batch the ratio is 1, so nothing is clipped"
    if config.tracker.gallery_samples == config.tracker.gallery_train_every == 0:
        yield "tracker.pictures", "the gallery that they are taken from is empty"
    if not config.eval.benchmarks:
        for key in ("eval.during", "eval.on_missing"):
            yield key, "there are no benchmarks (eval=ovd, rec or qa)"
    if config.model.lora.rank == 0:
        for key in ("model.lora.alpha", "model.lora.dropout"):
            yield key, "model.lora.rank is 0, so there are no adapters"
    else:
        for key in ("model.freeze_vision", "model.freeze_projector"):
            yield key, "with model.lora.rank > 0 only the adapters learn"
    if config.reward.grading.workers == 0:
        yield "reward.grading.timeout_s", "reward.grading.workers is 0, and only workers have a time limit"
    yield from _ignored_data(config.dataset)
    if isinstance(config.dataset, CocoConfig):
        yield from _ignored_coco(config.dataset)
    if not config.prompt.lists_targets():
        yield "prompt.separator", "the prompt lists no targets"
    if not config.prompt.suffix:
        yield "prompt.suffix_place", "prompt.suffix is empty"
    if config.paths.output_dir is not None:
        yield "paths.root", "paths.output_dir is the run folder itself"
    if config.debug.mode.value != "plan":
        yield "debug.plan_ranks", "only debug=plan reads it"
        yield "model.architecture", "only debug=plan reads it"


def _ignored_data(dataset: DatasetConfig) -> Iterator[tuple[str, str]]:
    if isinstance(dataset, ShapesConfig):
        if dataset.task not in DESCRIBING:
            yield "dataset.styles", f"samples of task {dataset.task} do not describe one object"
        if dataset.task is not Task.ovd:
            for key in ("dataset.negatives", "dataset.none_fraction"):
                yield key, f"samples of task {dataset.task} have no list of targets"
    if isinstance(dataset, DescribedConfig):
        drawn = ("dataset.present", "dataset.absent", "dataset.unique", "dataset.one_style")
        if dataset.task is Task.rec:
            for key in ("dataset.names", *drawn):
                yield key, "samples of task rec have no list of targets"
        elif dataset.names is not Names.drawn:
            for key in drawn:
                yield key, f"dataset.names={dataset.names.value} names words of the scene"
    if isinstance(dataset, SceneConfig) and dataset.objects[1] == 1:
        for key in ("dataset.difficulty", "dataset.max_overlap"):
            yield key, "an image holds only one object (dataset.objects)"


def _ignored_coco(dataset: CocoConfig) -> Iterator[tuple[str, str]]:
    if dataset.subset not in (Subset.filtered, Subset.pos_3):
        yield "dataset.max_boxes", f"dataset.subset={dataset.subset} does not count boxes"
        yield "dataset.keep_boundary", f"dataset.subset={dataset.subset} does not count boxes"
    if dataset.subset not in (Subset.small, Subset.regular):
        yield "dataset.small_fraction", f"dataset.subset={dataset.subset} does not ask for sizes"
    if dataset.task is Task.ovd and dataset.negatives[1] == 0:
        yield "dataset.seed", "nothing is drawn without dataset.negatives"
