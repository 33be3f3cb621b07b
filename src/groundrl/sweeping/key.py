"""The key of a run: equal settings, equal key, wherever its files go and however it is watched."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

IGNORED = ("hydra", "paths", "resume", "scale", "threads", "tracker")
"""Blocks that do not decide a result. What is used of `scale` stands where it is used."""

ADDED: dict[str, Any] = {
    "eval.verify": None,
}
"""Settings that came after the first frozen results, and the value at which a run is what it was before. At
that value they are left out of the key, so a new setting does not orphan results."""


def config_key(resolved: Mapping[str, Any]) -> str:
    """16 hex digits of a resolved configuration (plain values, as config.yaml of a run folder holds them).

    Paths below `paths.data` count from there, so that the key is the same on every machine.
    """
    data = str((resolved.get("paths") or {}).get("data") or "")
    kept = {name: _portable(value, data) for name, value in resolved.items() if name not in IGNORED}
    for dotted, before in ADDED.items():
        *parents, last = dotted.split(".")
        block: Any = kept
        for parent in parents:
            block = block.get(parent) if isinstance(block, dict) else None
        if isinstance(block, dict) and last in block and block[last] == before:
            del block[last]
    text = json.dumps(kept, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _portable(value: Any, data: str) -> Any:
    if isinstance(value, Mapping):
        return {str(name): _portable(one, data) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [_portable(one, data) for one in value]
    if isinstance(value, str) and data and (value == data or value.startswith(data.rstrip("/") + "/")):
        return "${paths.data}" + value[len(data.rstrip("/")) :]
    return value
