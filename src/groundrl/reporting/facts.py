"""Where a run's numbers come from: the facts of the header and the full list."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from groundrl.reporting.files import RunFiles
from groundrl.reporting.records import text
from groundrl.tracking.numbers import duration, finite

_HEADLINE = (
    ("model", "Model"),
    ("dataset", "Data"),
    ("device", "Device"),
    ("scale", "Scale"),
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
    steps = finite(run.result.get("steps"))
    if steps is None and run.train:
        steps = run.train[-1][0]
    if steps is not None:
        headline.append(("Steps", f"{steps:.0f}"))
    seconds = finite(provenance.get("seconds"))
    if seconds is not None:
        headline.append(("Time", duration(seconds)))
    command = provenance.get("command", "")
    shown = " ".join(map(text, command)) if isinstance(command, list) else text(command)
    status = text(run.result.get("status")) or ("not finished" if not run.result else "ended")
    return Facts(status=status, command=shown, headline=headline, all=list(_flat(provenance)))


def _flat(value: Any, prefix: str = "") -> list[tuple[str, str]]:
    if isinstance(value, Mapping):
        return [
            pair
            for key, item in value.items()
            for pair in _flat(item, f"{prefix}.{key}" if prefix else text(key))
        ]
    if isinstance(value, list):
        return [(prefix, ", ".join(map(text, value)))]
    return [(text(prefix), text(value))]
