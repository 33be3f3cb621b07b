"""The records of a JSON, JSONL or Parquet file, numbered from 1, each decoded only when it is read.

A line that is no JSON is then the error of its row and can be skipped like any other bad row.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from groundrl.data.hf_library import hf_library, undecoded
from groundrl.errors import ConfigError, DataError

LINES = (".jsonl", ".ndjson")


@dataclass(frozen=True, slots=True)
class Record:
    """One record as it stands in its file: a line of JSON, or a value that is decoded already."""

    file: Path
    number: int
    value: object
    is_line: bool = False

    def fields(self) -> dict[str, Any]:
        """Its keys and values. Raises DataError, naming file and row, when it is no JSON object."""
        value: Any = self.value
        if self.is_line:
            try:
                value = json.loads(value)
            except (ValueError, RecursionError) as error:
                raise self.error(f"is not JSON ({error})", "write one object a line") from None
        if not isinstance(value, dict):
            raise self.error(f"is a {type(value).__name__}, not an object", 'write {"key": value, ...}')
        if not self.is_line or "\\u" in str(self.value):
            try:
                json.dumps(value, ensure_ascii=False, default=_digest).encode()
            except (UnicodeEncodeError, RecursionError) as error:
                deep = isinstance(error, RecursionError)
                problem = "is nested too deep" if deep else "holds half a surrogate pair"
                raise self.error(problem, "correct it") from None
        return value

    def error(self, problem: str, todo: str = "") -> DataError:
        """An error that names this record."""
        return DataError(self.file, problem, row=self.number, todo=todo)

    def name(self, given: object) -> str:
        """The record's own id, or one made of its content, so that it does not depend on its place."""
        if isinstance(given, (str, int)) and not isinstance(given, bool) and str(given).strip():
            return f"{self.file.stem}:{given}"
        text = self.value if self.is_line else json.dumps(self.value, sort_keys=True, default=_digest)
        return f"{self.file.stem}:{_digest(str(text).strip().encode('utf-8', 'surrogatepass'))}"


def read_records(file: Path) -> Iterator[Record]:
    """The records of `file`, whose ending says how it is written; empty lines are passed over.

    Raises DataError for a file that is not UTF-8, no JSON, JSON that is not a list, or no Parquet;
    ConfigError for other endings, and for Parquet without the `datasets` library.
    """
    ending = file.suffix.lower()
    if ending == ".parquet":
        yield from _parquet(file)
        return
    if ending not in (*LINES, ".json"):
        known = ", ".join((".json", *LINES, ".parquet"))
        raise ConfigError("dataset.path", "has an unknown ending", got=file.name, todo=f"use one of {known}")
    try:
        if ending in LINES:
            with file.open(encoding="utf-8-sig") as stream:
                for number, line in enumerate(stream, start=1):
                    if line.strip():
                        yield Record(file, number, line, is_line=True)
            return
        document: Any = json.loads(file.read_text(encoding="utf-8-sig"))
    except UnicodeDecodeError as error:
        raise DataError(file, f"is not UTF-8 ({error.reason})", todo="convert it to UTF-8") from None
    except (ValueError, RecursionError) as error:
        todo = "expected a list of objects; a file with one object a line is named .jsonl"
        raise DataError(file, f"is not JSON ({error})", todo=todo) from None
    if not isinstance(document, list):
        problem = f"holds a {type(document).__name__} at the top, expected a list of objects"
        raise DataError(file, problem, todo="write [{...}, {...}]")
    for number, value in enumerate(document, start=1):
        yield Record(file, number, value)


def _parquet(file: Path) -> Iterator[Record]:
    library = hf_library(file.name)
    try:
        table: Any = library.Dataset.from_parquet(str(file))
    except (ValueError, OSError, library.exceptions.DatasetsError) as error:
        cause = error.__cause__ or error
        raise DataError(file, f"is no Parquet file ({cause})", todo="download it again") from None
    for number, value in enumerate(undecoded(library, table), start=1):
        yield Record(file, number, value)


def _digest(value: object) -> str:
    data = value if isinstance(value, bytes) else str(value).encode()
    return hashlib.sha256(data).hexdigest()[:16]
