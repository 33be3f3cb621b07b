"""JSON-lines files that survive a kill, and whole files that are replaced in one move."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any

Record = dict[str, Any]


def json_safe(value: Any) -> Any:
    """`value` made of plain JSON types.

    Numbers that are not finite become None, numpy scalars plain numbers, enums their values, paths strings.
    """
    if value is None or (isinstance(value, bool | int | str) and not isinstance(value, Enum)):
        return value
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(json_safe(key)): json_safe(item) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [json_safe(item) for item in value]
    if isinstance(value, Enum):
        return json_safe(value.value)
    if isinstance(value, Path):
        return str(value)
    if hasattr(value, "tolist"):
        return json_safe(value.tolist())
    raise TypeError(f"cannot be written as JSON: {type(value).__name__}")


def to_json(value: Any, *, indent: int | None = None) -> str:
    """JSON text of `value` after `json_safe`; ASCII only, so that no text of a model can break it."""
    return json.dumps(json_safe(value), allow_nan=False, indent=indent)


def write_atomic(path: Path, content: bytes) -> None:
    """Replace `path` by `content` so that a reader sees the old file or the new one, never a part."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.tmp")
    with temporary.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)


def write_json(path: Path, value: Any) -> None:
    """Write `value` as an indented JSON file (`result.json`), atomically."""
    write_atomic(path, (to_json(value, indent=2) + "\n").encode())


class JsonLines:
    """A file of one JSON object a line. Each line is handed to the system as a whole when it is appended."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = self._open()

    def _open(self) -> Any:
        """Open for appending; a half-written last line is ended first, so that nothing is glued to it."""
        file = self.path.open("ab", buffering=0)
        if file.tell() and _last_byte(self.path) != b"\n":
            file.write(b"\n")
        return file

    def append(self, record: Mapping[str, Any]) -> None:
        self._file.write((to_json(record) + "\n").encode())

    def truncate_after(self, step: int, *, final: int | None = None) -> int:
        """Drop the lines whose "step" is greater than `step` and a half-written last line.

        final: the run's last step; evaluations at it go too. They come after the last checkpoint, so a
        resumed run makes them again.

        Everything else stays as it is, unreadable lines in the middle included. The file is replaced in one
        move: a kill leaves either the old or the new one. Returns the number of lines dropped.
        """
        self._file.close()
        temporary = self.path.with_name(f".{self.path.name}.tmp")
        dropped = 0
        with self.path.open("rb") as source, temporary.open("wb") as target:
            last = None
            for line in source:
                if last is not None:
                    dropped += _copy_line(last, target, step=step, final=final, is_last=False)
                last = line
            if last is not None:
                dropped += _copy_line(last, target, step=step, final=final, is_last=True)
            target.flush()
            os.fsync(target.fileno())
        temporary.replace(self.path)
        _sync_folder(self.path.parent)
        self._file = self._open()
        return dropped

    def close(self) -> None:
        if not self._file.closed:
            os.fsync(self._file.fileno())
            self._file.close()


@dataclass(frozen=True, slots=True, kw_only=True)
class LinesRead:
    """The objects of a JSON-lines file, and how many lines could not be read."""

    records: list[Record]
    unreadable: int


def read_lines(path: Path) -> LinesRead:
    """Read a JSON-lines file; lines that are not a JSON object are counted, not raised."""
    records: list[Record] = []
    unreadable = 0
    with path.open("rb") as file:
        for line in _non_empty(file):
            record = _parse(line)
            if record is None:
                unreadable += 1
            else:
                records.append(record)
    return LinesRead(records=records, unreadable=unreadable)


def _copy_line(line: bytes, target: Any, *, step: int, final: int | None, is_last: bool) -> int:
    """Write `line` unless it goes; returns 1 if it was dropped."""
    record = _parse(line)
    if record is None:
        goes = is_last
    else:
        line_step = record.get("step")
        evaluated = "eval" in (record.get("kind"), record.get("phase"))
        limit = step if final is None or not evaluated else min(step, final - 1)
        goes = isinstance(line_step, int | float) and line_step > limit
    if goes:
        return 1
    target.write(line if line.endswith(b"\n") else line + b"\n")
    return 0


def _parse(line: bytes) -> Record | None:
    try:
        record = json.loads(line.decode())
    except (ValueError, RecursionError):
        return None
    return record if isinstance(record, dict) else None


def _non_empty(lines: Iterator[bytes]) -> Iterator[bytes]:
    return (line for line in lines if line.strip())


def _last_byte(path: Path) -> bytes:
    with path.open("rb") as file:
        file.seek(-1, os.SEEK_END)
        return file.read(1)


def _sync_folder(folder: Path) -> None:
    """Make a rename last over a power loss, where the system allows to sync a folder."""
    if os.name != "posix":
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
