"""Metrics of a batch of rollouts, under the flat names that trackers and the report know."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np

from groundrl.evaluation.monitors import batch_monitors
from groundrl.evaluation.verification import answers_of, verdicts_of
from groundrl.rewards.graded import Graded
from groundrl.types import Missing, Role, Rollout, RolloutStatus


def rollout_metrics(scored: Sequence[Graded]) -> dict[str, float]:
    """Rewards and terms, totals per task, lengths, failures by kind, monitors; group/reward_std is of the
    batch."""
    rows = list(scored)
    metrics: dict[str, float] = {}
    totals = [entry.breakdown.total for entry in rows]
    valid = [total for total in totals if total is not None]
    if valid:
        metrics["reward/total"] = float(np.mean(valid))
        metrics["group/reward_std"] = float(np.std(valid))
    metrics["group/missing_frac"] = 1 - len(valid) / len(rows)
    names = sorted({name for entry in rows for name in entry.breakdown.terms})
    for name in names:
        terms = [e.breakdown.terms[name] for e in rows if name in e.breakdown.terms]
        values = [term.value for term in terms if not isinstance(term, Missing)]
        if values:
            metrics[f"reward/{name}"] = float(np.mean(values))
        metrics[f"group/zero_spread_{name}_frac"] = _zero_spread(rows, name)
    for task in sorted({entry.sample.task for entry in rows}):
        own = [e.breakdown.total for e in rows if e.sample.task is task and e.breakdown.total is not None]
        if own:
            metrics[f"reward/{task}/total"] = float(np.mean(own))
    lengths = [entry.rollout.num_student_tokens for entry in rows]
    metrics["rollout/tokens_mean"] = float(np.mean(lengths))
    metrics["rollout/tokens_max"] = float(max(lengths))
    metrics["rollout/boxes_mean"] = float(np.mean([entry.answer.num_items for entry in rows]))
    metrics["rollout/learned_frac"] = _learned([entry.rollout for entry in rows])
    statuses = Counter(entry.rollout.status for entry in rows)
    metrics["rollout/truncated_frac"] = statuses[RolloutStatus.TRUNCATED_LENGTH] / len(rows)
    for status, count in statuses.items():
        if status is not RolloutStatus.FINISHED:
            metrics[f"rollout/{status}_frac"] = count / len(rows)
    for parse, count in Counter(entry.answer.status for entry in rows).items():
        metrics[f"parse/{parse}_frac"] = count / len(rows)
    metrics["parse/rejected_mean"] = float(np.mean([len(entry.answer.rejected) for entry in rows]))
    metrics["parse/clipped_mean"] = float(np.mean([entry.answer.clipped for entry in rows]))
    return metrics | batch_monitors(rows) | _verification([entry.rollout for entry in rows])


def _learned(rollouts: Sequence[Rollout]) -> float:
    """Share of the tokens behind the prompts that the loss counts; 1 in a single turn."""
    segments = [segment for rollout in rollouts for segment in rollout.segments]
    tokens = sum(len(segment.roles) for segment in segments)
    return sum(rollout.num_student_tokens for rollout in rollouts) / tokens if tokens else 1.0


def _verification(rollouts: Sequence[Rollout]) -> dict[str, float]:
    """Turns, answers and verdicts of a batch in which answers were verified; empty for other batches.

    verify/tokens_frac is the cost: of the tokens behind the prompts, those of requests and verdicts.
    """
    verdicts = [verdicts_of(rollout) for rollout in rollouts]
    if not any(verdicts):
        return {}
    flat = [verdict for own in verdicts for verdict in own]
    roles = np.concatenate([segment.roles for rollout in rollouts for segment in rollout.segments])
    return {
        "rollout/turns_mean": float(np.mean([rollout.turns for rollout in rollouts])),
        "rollout/answers_mean": float(np.mean([len(answers_of(rollout)) for rollout in rollouts])),
        "verify/yes_frac": flat.count(True) / len(flat),
        "verify/invalid_frac": flat.count(None) / len(flat),
        "verify/first_yes_frac": float(np.mean([own[0] is True for own in verdicts if own])),
        "verify/tokens_frac": float(np.mean((roles == Role.PROMPT) | (roles == Role.VERIFY))),
    }


def _zero_spread(rows: Sequence[Graded], name: str) -> float:
    """Share of the groups in which term `name` is equal for all: where the main term has none and only the
    format varies, a run learns the format and nothing else."""
    groups: dict[int, list[float]] = {}
    for entry in rows:
        term = entry.breakdown.terms.get(name)
        if term is not None and not isinstance(term, Missing):
            groups.setdefault(entry.rollout.group, []).append(term.value)
    flat = [max(values) - min(values) < 1e-12 for values in groups.values()]
    return float(np.mean(flat)) if flat else 1.0


def step_record(step: int, entry: Graded) -> dict[str, object]:
    """A rollout as one line of `rollouts.jsonl`: the text and everything its reward is made of."""
    breakdown = entry.breakdown
    return {
        "step": step,
        "sample_id": entry.sample.id,
        "group": entry.rollout.group,
        "index": entry.rollout.index,
        "status": entry.rollout.status,
        "parse": entry.answer.status,
        "tokens": entry.rollout.num_student_tokens,
        "text": entry.rollout.text,
        **({"said": [[one.role.name, one.text] for one in entry.rollout.said]} if entry.rollout.said else {}),
        "total": breakdown.total,
        "terms": {
            name: {"missing": term.reason}
            if isinstance(term, Missing)
            else {"value": term.value, "weight": breakdown.weights[name], **dict(term.detail)}
            for name, term in breakdown.terms.items()
        },
    }
