"""Where a run's numbers come from: the facts of the header and the full list."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from groundrl.reporting.files import RunFiles
from groundrl.reporting.records import text
from groundrl.tracking.numbers import duration, finite, number

_HEADLINE = (
    ("model", "Model"),
    ("parameters", "Parameters"),
    ("task", "Task"),
    ("heldout", "Held out"),
    ("device", "Device"),
    ("seed", "Seed"),
    ("commit", "Commit"),
    ("config_hash", "Config"),
)
_SHORTENED = {"commit": 10, "config_hash": 12}


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """`headline` are the facts at the top, `all` every stored fact by its dotted name."""

    status: str
    command: str
    headline: list[tuple[str, str]]
    all: list[tuple[str, str]]


def build_facts(run: RunFiles) -> Facts:
    """From `result.json`, and the steps from `metrics.jsonl` where that is missing."""
    stored = run.result.get("run")
    provenance: Mapping[str, Any] = stored if isinstance(stored, dict) else {}
    headline = [
        (label, text(provenance[key])[: _SHORTENED.get(key)])
        for key, label in _HEADLINE
        if provenance.get(key) is not None and not isinstance(provenance[key], dict | list)
    ]
    command = provenance.get("command", "")
    return Facts(
        status=text(run.result.get("status")) or ("ended" if run.result else "not finished"),
        command=" ".join(map(text, command)) if isinstance(command, list) else text(command),
        headline=headline + _course(run),
        all=_flat(provenance, ""),
    )


def _course(run: RunFiles) -> list[tuple[str, str]]:
    """How far the run went, how long it took, and where its best evaluation was."""
    facts: list[tuple[str, str]] = []
    steps = finite(run.result.get("steps"))
    if steps is None and run.train:
        steps = run.train[-1][0]
    if steps is not None:
        facts.append(("Steps", f"{steps:.0f}"))
    seconds = finite(run.result.get("train_seconds"))
    if seconds is not None:
        facts.append(("Training time", duration(seconds)))
    best = run.result.get("best")
    if isinstance(best, dict) and finite(best.get("value")) is not None:
        facts.append(
            ("Best", f"{text(best.get('metric'))} {number(best['value'])} at step {text(best.get('step'))}")
        )
    return facts


def _flat(value: Any, name: str) -> list[tuple[str, str]]:
    if isinstance(value, Mapping):
        return [
            pair
            for key, item in value.items()
            for pair in _flat(item, f"{name}.{key}" if name else text(key))
        ]
    if isinstance(value, list):
        return [(text(name), ", ".join(map(text, value)))]
    return [(text(name), text(value))]
