"""`experiments/<id>/lock-<scale>.json`: what a sweep was when it last ran, and what has changed since."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from groundrl.errors import DataError
from groundrl.sweeping.cells import Cell
from groundrl.tracking.lines import write_json

SHOWN = 5


def locked(cells: Sequence[Cell], *, commit: str, start: dict[str, str | None]) -> dict[str, Any]:
    """The content of the lock. start: fingerprints of the start checkpoints by their path."""
    listed: list[dict[str, Any]] = []
    for cell in cells:
        entry: dict[str, Any] = {"axes": cell.axes, "seed": cell.seed, "words": list(cell.words)}
        if cell.not_testable is None:
            entry |= {"key": cell.key, "twins": {name: list(pair) for name, pair in cell.twins.items()}}
        else:
            entry["not_testable"] = cell.not_testable
        listed.append(entry)
    return {"id": cells[0].id, "scale": cells[0].scale, "commit": commit, "start": start, "cells": listed}


def read_lock(file: Path) -> dict[str, Any] | None:
    """The lock of an earlier call, None when there was none. Raises DataError when it is damaged."""
    if not file.is_file():
        return None
    try:
        content: Any = json.loads(file.read_text("utf-8"))
        by_place(content)
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        raise DataError(file, "is no lock of a sweep", todo="restore it from git, or delete it") from None
    return content


def write_lock(file: Path, content: dict[str, Any]) -> None:
    write_json(file, content)


def changes(old: dict[str, Any], new: dict[str, Any]) -> list[str]:
    """What differs between two locks, a sentence each."""
    said: list[str] = []
    if old["commit"] != new["commit"]:
        said.append(f"commit: {old['commit']} then, {new['commit']} now")
    for path in sorted({*old["start"], *new["start"]}):
        before, after = old["start"].get(path), new["start"].get(path)
        if path in old["start"] and path in new["start"] and before != after:
            said.append(f"start checkpoint {path}: {_short(before)} then, {_short(after)} now")
    then, now = by_place(old), by_place(new)
    said += _listed("new", [place for place in now if place not in then])
    said += _listed("no longer in the sweep (results are kept)", [p for p in then if p not in now])
    for place, cell in now.items():
        if place in then and then[place].get("key") != cell.get("key"):
            gone = [word for word in then[place]["words"] if word not in cell["words"]]
            came = [word for word in cell["words"] if word not in then[place]["words"]]
            words = f" ({' '.join(gone) or '-'} became {' '.join(came) or '-'})" if gone or came else ""
            why = words or " (same words: defaults have changed)"
            said.append(f"{place}: key {then[place].get('key')} then, {cell.get('key')} now{why}")
    return said


def by_place(lock: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """The cells of a lock by `axis=value,... seed N`."""
    return {_place(cell["axes"], cell["seed"]): cell for cell in lock["cells"]}


def _place(axes: dict[str, str], seed: int) -> str:
    return f"{','.join(f'{axis}={value}' for axis, value in sorted(axes.items()))} seed {seed}"


def _listed(what: str, places: list[str]) -> list[str]:
    if not places:
        return []
    more = f" and {len(places) - SHOWN} more" if len(places) > SHOWN else ""
    return [f"{what}: {'; '.join(places[:SHOWN])}{more}"]


def _short(digest: str | None) -> str:
    return digest[:12] if digest else "not there"
