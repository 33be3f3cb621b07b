"""The loop. One step: gather experience, learn from it, hand the weights to the engine, log; every so often
evaluate and save. What kind of experience, and which objective, is the wired objects' business.
"""

from __future__ import annotations

import resource
import sys
import time
from functools import partial

import torch

from groundrl.learner.checkpoint import save_model, write_folder
from groundrl.learner.learner import Learner
from groundrl.training.measure import Measured, measure
from groundrl.training.method import Gathered, Method
from groundrl.training.metrics import step_record
from groundrl.training.nonfinite import store_skipped
from groundrl.training.parts import Parts
from groundrl.training.show import show_evaluation, show_group, shown
from groundrl.training.state import Best


class Interrupted(Exception):
    """A signal ended the loop; the run was saved."""


def train(parts: Parts, method: Method, learner: Learner) -> None:
    """Train from `parts.state.step` to the end. Raises Interrupted after saving."""
    state, clock = parts.state, parts.clock
    total = learner.plan.num_steps
    while state.step < total:
        if parts.stopping():  # during the evaluation before training; later steps save below
            raise Interrupted
        started = time.perf_counter()
        clock.begin()
        gathered = method.gather(state.step, clock)
        learner.on_skip = partial(store_skipped, parts, gathered)
        with clock.stage("learn"):
            parts.collector.engine.release()
            metrics = gathered.metrics | learner.step(gathered.experience)
        metrics |= method.settle(clock)
        with clock.stage("sync"):
            parts.collector.engine.sync_weights(parts.policy.model)
        state.step += 1
        with clock.stage("log"):
            _store(parts, gathered)
        metrics |= clock.metrics() | _performance(gathered, time.perf_counter() - started)
        parts.tracker.log(state.step, "train", metrics)
        parts.display.step(state.step, total, metrics)
        state.seconds += time.perf_counter() - started

        every = parts.config.eval.every
        if every and state.step % every == 0 and state.step < total:
            evaluate(parts, parts.config.eval.every_samples)
        last, stopping = state.step == total, parts.stopping()
        if last or stopping or state.step % parts.config.checkpoint.every == 0:
            save(parts, method, learner)
        if stopping and not last:
            raise Interrupted


def evaluate(parts: Parts, samples: int, note: str = "", *, when: str | None = None) -> Measured:
    """Evaluate the present policy, log and show it, and keep it if it is the best so far.

    when: before or after training, whose answers are stored
    """
    state = parts.state
    total = parts.config.algorithm.training_steps()
    measured = measure(parts, samples, progress=state.step / total if total else 0.0, when=when)
    metrics = measured.metrics()
    parts.tracker.log(state.step, "eval", metrics)
    result = measured.heldout
    note = note or (f"{len(result.greedy)} samples" if result is not None else "")
    parts.display.evaluation(state.step, shown(metrics), note)
    if result is None:
        return measured
    parts.tracker.show(show_evaluation(parts.gallery, state.step, result))
    value = parts.suite.best_value(result)
    if value > state.best.value:
        state.best = Best(step=state.step, value=value)
        if parts.learner is not None:
            world, best = parts.world, parts.folder.path / "best"
            write_folder(best, lambda folder: save_model(parts.policy, folder, world), world)
    return measured


def save(parts: Parts, method: Method, learner: Learner) -> None:
    """Write a checkpoint from which the run continues exactly."""
    extra = {
        "run": parts.state.to_json(),
        "method": method.state(),
        "tracker": parts.tracker.state(),
    }
    parts.checkpoints.save(parts.state.step, parts.policy, learner, extra)


def _store(parts: Parts, gathered: Gathered) -> None:
    for entry in gathered.scored:
        parts.rollouts.append(step_record(parts.state.step, entry))
    if gathered.scored and parts.gallery.wants_train(parts.state.step):
        parts.tracker.show(show_group(parts.gallery, parts.state.step, gathered.scored))


def _performance(gathered: Gathered, seconds: float) -> dict[str, float]:
    """Tokens a second over the whole step, and the process's (or device's) peak memory in MiB."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1 if sys.platform == "darwin" else 1024)
    if torch.cuda.is_available():
        peak = torch.cuda.max_memory_allocated() / 2**20
    return {"perf/tokens_per_s": gathered.tokens / seconds, "perf/memory_mb": peak}
