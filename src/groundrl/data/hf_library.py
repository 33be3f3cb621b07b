"""The library `datasets` (huggingface/datasets), which is optional: loading its tables, errors named.

Version 4 runs no loading scripts, and none is asked for: only files of data are read.
"""

from __future__ import annotations

import importlib
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from groundrl.errors import ConfigError, DataError, NoFileError

FILES = {".parquet": "parquet", ".arrow": "arrow"}
"""Endings of single files -> how the library calls the format."""
_HUB_ID = re.compile(r"[\w.-]+(/[\w.-]+)?")


def hf_library(got: str) -> Any:
    """The module `datasets`. Raises ConfigError, saying what to install, where it is not there."""
    try:
        library: Any = importlib.import_module("datasets")
    except ImportError:
        library = None
    if not hasattr(library, "load_dataset"):  # a folder of that name imports, too
        raise ConfigError(
            "dataset.path",
            "is read by the library `datasets`, which is not installed",
            got=got,
            todo="pip install datasets, or convert the data to JSONL",
        )
    return library


def undecoded(library: Any, table: Any) -> Any:
    """`table` with its images as {bytes, path}, at every depth: decoding is left to data/images.py."""
    if table.features is None:
        return table
    changed = {name: _undecoded(library, feature) for name, feature in table.features.items()}
    for name, feature in changed.items():
        if feature != table.features[name]:
            table = table.cast_column(name, feature)
    return table


def _undecoded(library: Any, feature: Any) -> Any:
    if isinstance(feature, library.Image):
        return library.Image(decode=False)
    if isinstance(feature, library.List):
        return library.List(_undecoded(library, feature.feature), length=feature.length)
    if isinstance(feature, dict):
        return {name: _undecoded(library, inner) for name, inner in feature.items()}
    return feature


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where tables are: `path` on this machine or on the hub, and the configuration's `name`."""

    path: str
    name: str | None
    streaming: bool

    def tables(self, library: Any) -> dict[str, Any]:
        """Split name -> Dataset, or IterableDataset when streaming.

        A folder that `save_to_disk` made of a single table has the one split "" (it stores no name).

        Raises NoFileError where there is nothing at `path` or the hub cannot be reached; ConfigError for an
        unknown `name` and files of no known format; DataError for broken files.
        """
        try:
            return self._load(library)
        except FileNotFoundError as error:
            raise NoFileError(
                "dataset.path", f"holds no data set ({_line(error)})", got=self.path, todo="correct it"
            ) from None
        except (ConnectionError, TimeoutError) as error:
            raise NoFileError(
                "dataset.path",
                f"is no local file or folder, and the hub cannot be reached ({_line(error)})",
                got=self.path,
                todo="correct the path, or download it first on a machine with network",
            ) from None
        except library.exceptions.DatasetsError as error:
            cause = error.__cause__ or error
            raise DataError(self.path, f"cannot be read ({_line(cause)})", todo="download it again") from None
        except RuntimeError as error:
            todo = "use a data set that comes as files, e.g. its Parquet version"
            raise ConfigError("dataset.path", _line(error), got=self.path, todo=todo) from None
        except ValueError as error:
            if "BuilderConfig" in str(error) or "Config name" in str(error):
                raise ConfigError("dataset.name", _line(error), got=self.name, todo="choose one") from None
            raise DataError(self.path, f"cannot be read ({_line(error)})", todo="download it again") from None
        except OSError as error:
            raise DataError(self.path, f"cannot be read ({_line(error)})", todo="download it again") from None

    def _load(self, library: Any) -> dict[str, Any]:
        local = Path(self.path)
        if local.is_file():
            if local.suffix not in FILES:
                known = ", ".join(FILES)
                todo = f"use one of {known}, a folder, or dataset=qa for JSON"
                raise ConfigError("dataset.path", "has an unknown ending", got=self.path, todo=todo)
            kind = FILES[local.suffix]
            return dict(library.load_dataset(kind, data_files=str(local), streaming=self.streaming))
        if local.is_dir():
            if (local / "dataset_dict.json").is_file() or (local / "state.json").is_file():
                return self._saved(library)
        elif not _HUB_ID.fullmatch(self.path):
            todo = "give a file, a folder, or OWNER/NAME on the hub"
            raise NoFileError("dataset.path", "no such file or folder", got=self.path, todo=todo)
        return dict(library.load_dataset(self.path, name=self.name, streaming=self.streaming))

    def _saved(self, library: Any) -> dict[str, Any]:
        """What `save_to_disk` wrote."""
        if self.name is not None:
            problem = "a folder made by save_to_disk has no configurations"
            raise ConfigError("dataset.name", problem, got=self.name, todo="remove it")
        saved = library.load_from_disk(self.path)
        tables: dict[str, Any] = dict(saved) if isinstance(saved, library.DatasetDict) else {"": saved}
        if self.streaming:
            return {split: table.to_iterable_dataset() for split, table in tables.items()}
        return tables


def _line(error: BaseException) -> str:
    """The first line of a message."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
