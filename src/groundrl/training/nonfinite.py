"""Keeps the batch of a skipped optimiser step, and says which of its rollouts were not finite.

    nonfinite/step-000012.jsonl     one line a row of the skipped update (of each, if a step has several)

A line is that of `rollouts.jsonl` (sample, group, index, text, terms of the reward) with

    update       number of the optimiser step, from 1
    not_finite   which of log-prob, loss and gradient are not finite for this row alone; empty: in order
    advantage, lag, prompt_ids, token_ids, selected (which of them the loss counts)
"""

from __future__ import annotations

import json
import logging
from typing import Any

from groundrl.learner.nonfinite import Skipped
from groundrl.tracking.lines import to_json, write_atomic
from groundrl.training.method import Gathered
from groundrl.training.metrics import step_record
from groundrl.training.parts import Parts

logger = logging.getLogger(__name__)

NAMED = 5
"""Rows named in the warning."""


def store_skipped(parts: Parts, gathered: Gathered, skipped: Skipped) -> None:
    """Write the rows of all processes and warn. Called by all of them, before the step is counted."""
    step = parts.state.step + 1
    records = parts.world.gather_flat(_records(step, gathered, skipped))
    if not parts.world.first:
        return
    file = parts.folder.path / "nonfinite" / f"step-{step:06d}.jsonl"
    known = file.read_text("utf-8").splitlines() if file.is_file() else []
    # a resumed run comes to the same step again
    kept = [line for line in known if json.loads(line)["update"] < skipped.update]
    lines = [*kept, *(to_json(record) for record in records)]
    write_atomic(file, "".join(f"{line}\n" for line in lines).encode())
    bad = [record for record in records if record["not_finite"]]
    named = "; ".join(_name(record) for record in bad[:NAMED])
    more = f" and {len(bad) - NAMED} more" if len(bad) > NAMED else ""
    where = file.relative_to(parts.folder.path)
    text = "step %d: loss or gradient not finite, update %d skipped: %s%s (all %d rows in %s)"
    which = named or "no row by itself"
    logger.warning(text, step, skipped.update, which, more, len(records), where)


def _records(step: int, gathered: Gathered, skipped: Skipped) -> list[dict[str, Any]]:
    out: list[dict[str, Any]] = []
    for row, faults in zip(skipped.rows, skipped.faults, strict=True):
        known = step_record(step, gathered.own[row.rollout]) if gathered.own else {"step": step}
        out.append(
            {
                **known,
                "rollout": row.rollout,
                "update": skipped.update,
                "not_finite": list(faults),
                "advantage": row.advantage,
                "lag": row.lag,
                "prompt_ids": row.row.prompt.tolist(),
                "token_ids": row.row.completion.tolist(),
                "selected": row.selected.tolist(),
            }
        )
    return out


def _name(record: dict[str, Any]) -> str:
    faults = " and ".join(record["not_finite"])
    if "sample_id" not in record:
        return f"row {record['rollout']} ({faults})"
    return f"{record['sample_id']} (group {record['group']}, index {record['index']}: {faults})"
