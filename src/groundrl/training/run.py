"""From a `RunConfig` to a finished run folder: wiring, beginning, end."""

from __future__ import annotations

import errno
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from groundrl.config.entry import set_threads
from groundrl.config.invocation import Invocation
from groundrl.errors import RunFolderError
from groundrl.learner.checkpoint import load
from groundrl.models.load import pick_device
from groundrl.run_config import DebugMode, RunConfig
from groundrl.tracking.lines import write_json
from groundrl.training.evaluating import evaluate_references
from groundrl.training.loop import Interrupted, evaluate, save, train
from groundrl.training.measure import AFTER, BEFORE, Measured, results, stored
from groundrl.training.parts import Parts
from groundrl.training.ready import check_ready
from groundrl.training.resume import saved_run
from groundrl.training.run_folder import RESULT, RunFolder, check_run_folder, create, reopen
from groundrl.training.show import headlines, summary
from groundrl.training.state import RunState
from groundrl.training.wiring import wire
from groundrl.world import World

STORAGE_ERRORS = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EFBIG})


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """code: exit code; folder: the run folder, None when nothing was run."""

    code: int
    folder: Path | None


def run(config: RunConfig, invocation: Invocation) -> Outcome:
    """Run what the configuration says. Raises UserError on anything the user can put right."""
    if config.debug.mode is DebugMode.plan:
        from groundrl.training.plan import plan

        print(plan(config))
        return Outcome(code=0, folder=None)
    if config.resume is not None:
        path = config.resume
        config, invocation = saved_run(check_run_folder(path))
        set_threads(config.threads)
        return _run_in(lambda: reopen(path), config, invocation, resumed=True)
    check_ready(config)
    return _run_in(lambda: create(config.paths, invocation, config.seed), config, invocation, resumed=False)


def _run_in(
    open_folder: Callable[[], RunFolder], config: RunConfig, invocation: Invocation, *, resumed: bool
) -> Outcome:
    """The first process opens the folder; the others work in it without owning it."""
    world = World.of()
    world.start(cuda=pick_device(config.model).type == "cuda")
    opened = open_folder() if world.first else None
    path = world.share(str(opened.path) if opened is not None else "")
    folder = opened or RunFolder(Path(path), owned=False)
    try:
        with wire(folder, config, invocation, resumed=resumed, world=world) as parts:
            return _execute(parts)
    except OSError as error:
        if error.errno not in STORAGE_ERRORS:
            raise
        raise RunFolderError(
            f"{folder.path}: cannot be written any more ({error.strerror}); what was saved is kept: make "
            f"room, then go on with resume={folder.path}"
        ) from None
    finally:
        folder.close()
        world.close()


def _execute(parts: Parts) -> Outcome:
    parts.display.header(parts.facts)
    before = _before(parts)
    try:
        if parts.method is not None and parts.learner is not None:
            train(parts, parts.method, parts.learner)
    except Interrupted:
        _finish(parts, "interrupted", results(parts, before, None))
        command = f"python train.py resume={parts.folder.path}"
        parts.display.message(f"interrupted and saved; go on with: {command}")
        return Outcome(code=parts.interrupt.exit_code, folder=parts.folder.path)
    after: Measured | None = None
    if parts.learner is not None:
        after = evaluate(parts, parts.config.eval.samples, "after training", when=AFTER)
    evals = results(parts, before, after)
    if after is not None:
        evals["references"] = evaluate_references(parts)
    result = _finish(parts, "finished", evals)
    parts.display.finish(result | {"eval": headlines(evals)}, parts.folder.path, _next_command(parts))
    return Outcome(code=0, folder=parts.folder.path)


def _before(parts: Parts) -> Measured:
    """The evaluation before training: made now, or read back when the run is resumed behind it."""
    newest = parts.checkpoints.complete()
    if newest and parts.learner is not None and parts.method is not None:
        checkpoint = parts.checkpoints.newest_good(parts.display.message)
        saved = load(checkpoint, parts.policy, parts.learner)
        parts.state = RunState.from_json(saved["run"])
        parts.method.load(saved["method"])
        parts.collector.engine.sync_weights(parts.policy.model)
        parts.display.message(f"resumed from {checkpoint.name}")
        return stored(parts, BEFORE, progress=0.0)
    note = "before training" if parts.learner else ""
    before = evaluate(parts, parts.config.eval.samples, note, when=BEFORE)
    if parts.learner is not None and parts.method is not None:
        save(parts, parts.method, parts.learner)
    return before


def _finish(parts: Parts, status: str, evals: dict[str, Any]) -> dict[str, Any]:
    result: dict[str, Any] = {
        "status": status,
        "steps": parts.state.step,
        "train_seconds": round(parts.state.seconds, 2),
        "eval": evals,
        "best": {
            "metric": parts.config.eval.metric,
            "step": parts.state.best.step,
            "value": parts.state.best.value if parts.state.best.step >= 0 else None,
        },
        "run": {**parts.facts, "finished_at": time.strftime("%Y-%m-%dT%H:%M:%S%z")},
    }
    if parts.world.first:
        write_json(parts.folder.path / RESULT, result)
    parts.tracker.finish(status, summary(result))
    return result


def _next_command(parts: Parts) -> str:
    if parts.learner is None:
        return "python train.py"
    if parts.config.task.name.value == "rec":
        return "python train.py reward=odlength"
    return "python train.py -m reward=ap50,ap,odlength seed=0,1,2"
