"""Reads what W&B wrote offline: a log of records in blocks, each record a protobuf message.

The layout is LevelDB's log format: after a header of 7 bytes, blocks of 32 KiB that hold pieces of a checksum
(4 bytes), a length (2), a kind (1: whole, 2: first, 3: middle, 4: last) and that many bytes.
"""

from __future__ import annotations

import importlib
import json
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

BLOCK = 32 * 1024


def records(path: Path) -> Iterator[Any]:
    """The messages of a `.wandb` file in order."""
    message = importlib.import_module("wandb.proto.wandb_internal_pb2").Record
    raw = path.read_bytes()
    assert raw[:4] == b":W&B"
    at, pieces = 7, b""
    while at + 7 <= len(raw):
        left = BLOCK - at % BLOCK
        if left < 7:
            at += left
            continue
        _, length, kind = struct.unpack("<IHB", raw[at : at + 7])
        pieces += raw[at + 7 : at + 7 + length]
        at += 7 + length
        if kind in (1, 4):
            record = message()
            record.ParseFromString(pieces)
            pieces = b""
            yield record


class WandbFile:
    """What one offline run recorded: config, rows of the history, summary, run and artifact messages."""

    def __init__(self, path: Path) -> None:
        self.config: dict[str, Any] = {}
        self.history: list[dict[str, Any]] = []
        self.summary: dict[str, Any] = {}
        self.artifacts: list[Any] = []
        self.run: Any = None
        self.exit_code: int | None = None
        for record in records(path):
            kind = record.WhichOneof("record_type")
            if kind == "run":
                self.run = record.run
                self.config = _values(record.run.config.update)
            elif kind == "history":
                self.history.append(_values(record.history.item))
            elif kind == "summary":
                self.summary |= _values(record.summary.update)
            elif kind == "artifact":
                self.artifacts.append(record.artifact)
            elif kind == "exit":
                self.exit_code = record.exit.exit_code

    def series(self, name: str) -> list[tuple[int, Any]]:
        """(step, value) of every row that has the metric."""
        return [(row["step"], row[name]) for row in self.history if name in row]

    def tables(self) -> list[dict[str, Any]]:
        """The tables in order, each with the bytes of the files it refers to under "files"."""
        found: list[dict[str, Any]] = []
        for artifact in self.artifacts:
            files = {one.path: Path(one.local_path).read_bytes() for one in artifact.manifest.contents}
            (name,) = (path for path in files if path.endswith(".table.json"))
            found.append(json.loads(files[name]) | {"files": files, "name": name})
        return found


def offline_files(run_dir: Path) -> list[WandbFile]:
    """The records of a run folder, one a start of the run, oldest first; W&B's service, which writes them
    out with delay, is ended before."""
    importlib.import_module("wandb").teardown()
    return [WandbFile(path) for path in sorted((run_dir / "wandb").glob("offline-run-*/run-*.wandb"))]


def _values(items: Any) -> dict[str, Any]:
    return {"/".join(item.nested_key) or item.key: json.loads(item.value_json) for item in items}
