"""How often a policy gets each sample right: an audit of a data set before it is trained on.

    python -m groundrl.training.audit TO.jsonl --samples 512 [--rollouts 8] [dataset=charts reward=answer ...]

The first line of the file says how it was made, each other one is a sample of the training split: index, id,
how many of its rollouts were right, and of how many that is known. An audit that was stopped goes on where it
was, and gives the numbers of one that was not. `dataset=by_difficulty` reads the file.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from groundrl.config.compose import compose_words
from groundrl.config.entry import guard, typed
from groundrl.data.base import Split
from groundrl.data.by_difficulty import read_audit
from groundrl.errors import ConfigError, DataError
from groundrl.run_config import RunConfig
from groundrl.tracking.lines import JsonLines, json_safe

AUDIT = 1_000_003
"""Goes into the seeds, so that an audit does not draw what training will."""


def audit(
    path: Path, config: RunConfig, *, samples: int, rollouts: int, words: Sequence[str] = ()
) -> list[str]:
    """Write the file, or what is missing of it; lines for people. Raises UserError.

    samples   the first so many of the training split (fewer if there are no more)
    rollouts  of each, drawn as training draws them
    """
    import torch

    from groundrl.evaluation.metrics import is_right
    from groundrl.models.load import load_policy
    from groundrl.rollout.collect import Collector
    from groundrl.training.truth import check_samples

    if config.threads is not None:
        torch.set_num_threads(config.threads)
    rubric, source = config.reward.build(), config.dataset.build(Split.TRAIN)
    rubric.check_tasks(source.tasks())
    policy = load_policy(config.model)
    made = json_safe(
        {
            "data": source.fingerprint(),
            "model": policy.fingerprint,
            "rollouts": rollouts,
            "sampling": asdict(config.rollout.sampling()),
            "prompt": asdict(config.prompt),
            "seed": config.seed,
            "words": list(words),
        }
    )
    count = samples if source.size is None else min(samples, source.size)
    done = _begun(path, made)
    engine = config.rollout.engine.build(policy.model, policy.processor)
    collector = Collector(
        engine,
        policy.processor,
        config.prompt.build(config.rollout.instruction()),
        config.rollout.build_eval_kind(policy.processor),
        limit=config.rollout.engine.context_limit(),
    )
    check_samples([source.sample(0)], collector, rubric, policy.family.coordinate_space)
    file = JsonLines(path)
    try:
        if not done and (not path.exists() or not path.stat().st_size):
            file.append({"audit": made})
        for start in range(0, count, config.eval.batch):
            piece = range(start, min(start + config.eval.batch, count))
            if all(index in done for index in piece):
                continue
            batch = [source.sample(index) for index in piece]
            drawn = collector.collect(
                batch, rollouts, config.rollout.sampling(), seed=(config.seed, AUDIT), first=start
            )
            for place, index in enumerate(piece):
                own = drawn[place * rollouts : (place + 1) * rollouts]
                found = [is_right(one, batch[place], rubric.parse(one, batch[place])) for one in own]
                if index not in done:
                    known = [right for right in found if right is not None]
                    record = {"index": index, "id": batch[place].id, "right": sum(known), "known": len(known)}
                    file.append(record)
            print(f"{piece.stop}/{count}", file=sys.stderr, flush=True)
    finally:
        file.close()
        engine.close()
    return _summary(path, rollouts)


def _begun(path: Path, made: dict[str, Any]) -> set[int]:
    """The samples that the file has already. Raises DataError when it was made otherwise."""
    if not path.exists() or not path.stat().st_size:
        return set()
    found = read_audit(path)
    if changed := [key for key in made if found.made.get(key) != made[key] and key != "words"]:
        problem = f"was made with another {', '.join(changed)}"
        raise DataError(path, problem, todo="give the words it was made with, or another file")
    return set(found.right)


def _summary(path: Path, rollouts: int) -> list[str]:
    found = read_audit(path)
    values = list(found.right.values())
    lines = [f"{path}: {len(values)} samples, {rollouts} rollouts each"]
    lines += [f"  {right} right: {values.count(right)}" for right in range(rollouts + 1)]
    unknown = sum(known != rollouts for known in found.known.values())
    return [*lines, f"  not fully judged: {unknown}"]


def main(arguments: Sequence[str]) -> int:
    """Print the summary; 2 with one line on stderr when a word or the file cannot be used."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("file", type=Path)
    parser.add_argument("--samples", type=int, required=True)
    parser.add_argument("--rollouts", type=int, default=8)
    parser.add_argument("words", nargs="*", help="settings, as for train.py")
    options = parser.parse_intermixed_args(arguments)

    def run() -> None:
        for key in ("samples", "rollouts"):
            if getattr(options, key) < 1:
                raise ConfigError(f"--{key}", "must be at least 1", got=getattr(options, key), todo="e.g. 8")
        config, _ = typed(compose_words(options.words), options.words, multirun=False)
        told = audit(
            options.file, config, samples=options.samples, rollouts=options.rollouts, words=options.words
        )
        print("\n".join(told))

    return guard(run, words=options.words)


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
