"""Builds the objects of a run from its configuration and takes them down again."""

from __future__ import annotations

import contextlib
import copy
import json
import os
import random
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch
from torch import Tensor

from groundrl.config.invocation import Invocation
from groundrl.data.base import SampleSource, Split
from groundrl.data.sampler import Sampler
from groundrl.errors import ConfigError
from groundrl.evaluation.benchmarks import load_benchmarks, shared_images
from groundrl.evaluation.suite import Judge, Suite
from groundrl.learner.algorithms import GRPOConfig, SFTConfig
from groundrl.learner.checkpoint import Checkpoints
from groundrl.learner.learner import Learner, Plan
from groundrl.learner.logprobs import Scorer
from groundrl.learner.objective import PolicyObjective, SFTObjective
from groundrl.losses.config import Normalisation
from groundrl.models.load import Policy, load_policy
from groundrl.models.lora import adapters_off, has_adapters
from groundrl.models.sharding import shard
from groundrl.rewards.grader import Grader
from groundrl.rollout.collect import Collector
from groundrl.run_config import RunConfig
from groundrl.tracking.config import TrackerConfig
from groundrl.tracking.display import Display
from groundrl.tracking.lines import JsonLines
from groundrl.training import provenance
from groundrl.training.ahead import Ahead
from groundrl.training.changes import save_changes
from groundrl.training.clock import StageClock
from groundrl.training.evaluating import CHECKED, benchmark_suite, report_shared, verifying_collector
from groundrl.training.grpo import GRPO
from groundrl.training.interrupt import Interrupt
from groundrl.training.memory import memory_fact
from groundrl.training.method import Method
from groundrl.training.parts import Parts
from groundrl.training.run_folder import RunFolder
from groundrl.training.sft import SFT
from groundrl.training.state import RunState
from groundrl.training.truth import check_samples
from groundrl.types import Sample
from groundrl.world import World


@contextlib.contextmanager
def wire(
    folder: RunFolder, config: RunConfig, invocation: Invocation, *, resumed: bool, world: World
) -> Iterator[Parts]:
    """The parts of a run, closed at the end whatever happens."""
    random.seed(config.seed)
    np.random.seed(config.seed)
    torch.manual_seed(config.seed)
    policy = load_policy(config.model)
    rubric = _placed("reward", config.reward.build)
    source = _placed("dataset", lambda: config.dataset.build(Split.TRAIN))
    heldout = config.dataset.build(Split.HELDOUT)
    prompt = config.prompt.build(config.rollout.instruction())
    rubric.check_tasks(source.tasks())
    prompt.check_tasks(source.tasks())
    # an engine that samples with the model itself needs one that is whole
    sampled = policy.model if world.alone else copy.deepcopy(policy.model).requires_grad_(False)
    engine = config.rollout.engine.build(sampled, policy.processor)
    collector = Collector(
        engine,
        policy.processor,
        prompt,
        _placed("rollout", lambda: config.rollout.build_kind(policy.processor)),
        limit=config.rollout.engine.context_limit(),
    )
    evaluating = collector.asking(kind=config.rollout.build_eval_kind(policy.processor))
    verifying = verifying_collector(config, evaluating)
    check_samples(_first_batch(config, source, world), collector, rubric, policy.family.coordinate_space)

    grader = Grader(rubric, config.reward.grading)
    judge = Judge(config.eval, grader)
    checkpoints = Checkpoints(folder.checkpoints, config.checkpoint.keep_last, world)
    checkpoints.clear_unfinished()
    after = _resume_state(checkpoints, config.algorithm.training_steps()) if resumed else None
    first = Sampler(source, config.seed, rank=world.rank, world_size=world.size)
    memory = memory_fact(config, policy, first, collector, world)
    learner = _learner(config, policy, world)
    chosen, skipped = load_benchmarks(config.eval, config.task.name, config.prompt)
    benchmarks = [benchmark_suite(config, own, evaluating, grader, source, policy) for own in chosen]
    report_shared("the held-out split", shared_images(source, heldout))
    facts = _facts(config, invocation, folder, policy, world, source.fingerprint(), heldout.fingerprint())
    if memory is not None:
        facts["memory"] = memory
    if benchmarks:
        names = ", ".join(own.name for own in chosen)
        facts["benchmarks"] = names + (f" (skipped: {', '.join(skipped)})" if skipped else "")
    with contextlib.ExitStack() as stack:
        own = folder.path if world.first else Path(stack.enter_context(TemporaryDirectory()))
        others = config.tracker if world.first else TrackerConfig(gallery_samples=0, gallery_train_every=0)
        tracker = others.build(
            run_dir=own,
            run_name=folder.path.name,
            config_dict=invocation.resolved,
            preset=invocation.experiment,
            resume_state=after,
        )
        gallery = others.build_gallery(own, after)
        rollouts = JsonLines(own / "rollouts.jsonl")
        if after is not None:
            rollouts.truncate_after(int(after["step"]))
        interrupt = stack.enter_context(Interrupt())
        shown = None if world.first else stack.enter_context(Path(os.devnull).open("w"))
        display = stack.enter_context(Display(stream=shown))
        method = _method(config, source, collector, grader, world)
        try:
            yield Parts(
                config=config,
                folder=folder,
                policy=policy,
                collector=collector,
                suite=Suite(
                    config.eval,
                    heldout,
                    evaluating,
                    judge,
                    config.rollout.sampling(),
                    shown=config.tracker.gallery_samples,
                    world=world,
                    verifying=verifying,
                ),
                benchmarks=benchmarks,
                skipped=skipped,
                method=method,
                learner=learner,
                checkpoints=checkpoints,
                tracker=tracker,
                gallery=gallery,
                rollouts=rollouts,
                display=display,
                interrupt=interrupt,
                clock=StageClock(),
                facts=facts,
                state=RunState(),
                world=world,
            )
        finally:
            if method is not None:
                method.close()
            grader.close()
            engine.close()
            rollouts.close()
            gallery.close()


def _first_batch(config: RunConfig, source: SampleSource, world: World) -> list[Sample]:
    """The samples that this process will train on first."""
    algorithm = config.algorithm
    if isinstance(algorithm, GRPOConfig):
        count = algorithm.prompts_per_step // world.size
    elif isinstance(algorithm, SFTConfig):
        count = algorithm.batch_size // world.size
    else:
        count = min(CHECKED, source.size or CHECKED)
    return Sampler(source, config.seed, rank=world.rank, world_size=world.size).next(count)


def _resume_state(checkpoints: Checkpoints, total: int) -> dict[str, Any]:
    """The trackers' state of the newest good checkpoint; a run killed before its first begins again."""
    if not checkpoints.complete():
        return {"step": -1}
    newest = checkpoints.newest_good(lambda text: None)
    saved = json.loads((newest / "state.json").read_text("utf-8"))
    return {**saved["tracker"], "step": saved["run"]["step"], "final_step": total}


def _method(
    config: RunConfig, source: SampleSource, collector: Collector, grader: Grader, world: World
) -> Method | None:
    algorithm = config.algorithm
    sampler = Sampler(source, config.seed, rank=world.rank, world_size=world.size)
    if isinstance(algorithm, GRPOConfig):
        grpo = GRPO(
            algorithm,
            sampler=sampler,
            collector=collector,
            grader=grader,
            advantage=algorithm.advantage.build(),
            sampling=config.rollout.sampling(),
            seed=config.seed,
            world=world,
        )
        lag = config.rollout.max_lag
        return Ahead(grpo, max_lag=lag, num_steps=algorithm.num_steps) if lag else grpo
    if isinstance(algorithm, SFTConfig):
        return SFT(algorithm, sampler=sampler, collector=collector, world=world)
    return None


def _learner(config: RunConfig, policy: Policy, world: World) -> Learner | None:
    """Shards the model, after a reference was copied from it."""
    algorithm = config.algorithm
    banned, pad_id = policy.processor.banned_ids, policy.processor.pad_id
    if isinstance(algorithm, GRPOConfig):
        scorer = Scorer(
            temperature=config.rollout.temperature,
            banned_ids=banned,
            pad_id=pad_id,
            shared_prefix=algorithm.optim.shared_prefix,
        )
        beta = algorithm.kl.weight()
        reference = _reference(policy, scorer, world) if beta > 0 else None
        shard(policy.model, policy.family, world)
        return Learner(
            policy.model,
            scorer,
            PolicyObjective(term=algorithm.loss.build(), beta=beta, correction=algorithm.correction.build()),
            Plan(
                num_steps=algorithm.num_steps,
                lr=algorithm.lr,
                num_iterations=algorithm.num_iterations,
                mini_batches=algorithm.mini_batches,
                normalisation=algorithm.loss.normalisation,
                constant_length=config.rollout.max_new_tokens,
                engine_ratio=not algorithm.correction.weighs,
            ),
            algorithm.optim,
            reference=reference,
            world=world,
        )
    if isinstance(algorithm, SFTConfig):
        shard(policy.model, policy.family, world)
        return Learner(
            policy.model,
            Scorer(
                temperature=1.0,
                banned_ids=banned,
                pad_id=pad_id,
                shared_prefix=algorithm.optim.shared_prefix,
            ),
            SFTObjective(),
            Plan(
                num_steps=algorithm.num_steps,
                lr=algorithm.lr,
                num_iterations=1,
                mini_batches=1,
                normalisation=Normalisation.token_mean,
                constant_length=1,
            ),
            algorithm.optim,
            world=world,
        )
    return None


def _reference(
    policy: Policy, scorer: Scorer, world: World | None = None
) -> Callable[[Sequence[Any]], Tensor]:
    """Log-probs under the policy as it is now: adapters off, or a frozen copy of the same class."""
    if has_adapters(policy.model):

        def without_adapters(rows: Sequence[Any]) -> Tensor:
            with adapters_off(policy.model):
                return scorer(policy.model, rows).logprobs

        return without_adapters
    frozen = copy.deepcopy(policy.model).requires_grad_(False).eval()
    shard(frozen, policy.family, world or World())
    return lambda rows: scorer(frozen, rows).logprobs


def _facts(
    config: RunConfig,
    invocation: Invocation,
    folder: RunFolder,
    policy: Policy,
    world: World,
    train_fingerprint: str,
    heldout_fingerprint: str,
) -> dict[str, Any]:
    """Provenance: printed as the header and stored with the result."""
    parameters = list(policy.model.parameters())
    trainable = sum(p.numel() for p in parameters if p.requires_grad)
    machine = provenance.machine(parameters[0].device)
    processes = "" if world.alone else f", {world.size} processes"
    commit = provenance.commit()
    changes = save_changes(folder.path, commit) if world.first and commit != "unknown" else None
    return {
        "run": str(folder.path),
        "command": "python train.py " + " ".join(invocation.overrides),
        "model": config.model.init_from or config.model.path,
        "model_sha256": policy.fingerprint,
        "start_fingerprint": provenance.start(config.model),
        "parameters": f"{sum(p.numel() for p in parameters):,} ({trainable:,} learn)",
        "device": f"{machine['device']} ({machine['name']}), {machine['threads']} threads{processes}",
        "precision": str(config.model.precision),
        "task": str(config.task.name),
        "prompt": f"{config.prompt.provenance} wording",
        "heldout": f"{config.eval.samples} samples",
        "seed": config.seed,
        "config_hash": invocation.config_hash[:16],
        "train_fingerprint": train_fingerprint,
        "heldout_fingerprint": heldout_fingerprint,
        "commit": commit,
        **({"changes": changes} if changes else {}),
        "versions": provenance.stated(provenance.versions()),
    }


def _placed(key: str, build: Callable[[], Any]) -> Any:
    try:
        return build()
    except ConfigError as error:
        raise error.at(key) from None
