"""Evaluated answers on disk: what was written, not how it was judged.

A resumed run needs the evaluation from before training for its paired difference; it reads the texts back
and parses and scores them again with the same code, which gives the same numbers.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from groundrl.errors import CheckpointError
from groundrl.evaluation.metrics import SampleResult
from groundrl.evaluation.suite import Evaluation, Judge
from groundrl.rollout.written import written_rollout
from groundrl.tracking.lines import write_atomic
from groundrl.types import CoordinateSpace, ImageFrame, Rollout, RolloutStatus, Sample


def store(path: Path, evaluation: Evaluation) -> None:
    """Write the answers of an evaluation, one JSON object a completion."""
    lines: list[str] = []
    for kind in ("greedy", "sampled"):
        results: list[SampleResult] = getattr(evaluation, kind)
        for result in results:
            for rollout in result.rollouts:
                lines.append(
                    json.dumps(
                        {
                            "kind": kind,
                            "sample_id": rollout.sample_id,
                            "index": rollout.index,
                            "status": rollout.status,
                            "tokens": rollout.num_student_tokens,
                            "think_tokens": rollout.think_tokens,
                            "text": rollout.text,
                            "frames": [[frame.original, frame.processed] for frame in rollout.frames],
                            "space": rollout.coordinate_space,
                        },
                        ensure_ascii=False,
                    )
                )
    write_atomic(path, ("\n".join(lines) + "\n").encode())


def restore(path: Path, samples: Sequence[Sample], judge: Judge, *, progress: float) -> Evaluation:
    """Read an evaluation back. Raises CheckpointError when it is not of these samples."""
    by_kind: dict[str, dict[str, list[Rollout]]] = {"greedy": {}, "sampled": {}}
    for line in path.read_text("utf-8").strip("\n").split("\n"):
        entry = json.loads(line)
        rollout = written_rollout(
            entry["sample_id"],
            entry["text"],
            [ImageFrame(original=(o[0], o[1]), processed=(p[0], p[1])) for o, p in entry["frames"]],
            space=CoordinateSpace(entry["space"]),
            status=RolloutStatus(entry["status"]),
            tokens=int(entry["tokens"]),
            think_tokens=entry.get("think_tokens"),
            index=int(entry["index"]),
        )
        by_kind[entry["kind"]].setdefault(rollout.sample_id, []).append(rollout)
    if list(by_kind["greedy"]) != [sample.id for sample in samples]:
        raise CheckpointError(f"{path} holds answers to other samples than this run evaluates")
    results: dict[str, list[SampleResult]] = {}
    for kind, rollouts in by_kind.items():
        ordered = [one for sample in samples for one in rollouts[sample.id]] if rollouts else []
        results[kind] = judge.grade(samples, ordered, progress) if ordered else []
    return judge.measure(results["greedy"], results["sampled"])
