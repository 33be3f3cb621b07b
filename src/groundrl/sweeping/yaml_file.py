"""YAML files that people write: read strictly, and refused with the file and the key."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from groundrl.config.locate import closest
from groundrl.errors import ConfigError


class _Unique(yaml.SafeLoader):
    """Refuses a key that stands twice in a mapping, of which YAML would silently keep the last."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen: set[object] = set()
        for key_node, _ in node.value:
            key = self.construct_object(key_node, deep=True)
            if key in seen:
                raise yaml.constructor.ConstructorError(
                    None, None, f"{key!r} stands twice", key_node.start_mark
                )
            seen.add(key)
        return super().construct_mapping(node, deep)


def read_yaml(file: Path) -> dict[str, Any]:
    """The mapping in a file, empty where there are only comments. Raises ConfigError when the file cannot be
    read or holds something else."""
    try:
        content: Any = yaml.load(file.read_text("utf-8"), Loader=_Unique)
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise ConfigError(str(file), f"cannot be read: {' '.join(str(error).split())}") from None
    return mapping(file, "", {} if content is None else content)


def mapping(file: Path, key: str, value: Any) -> dict[str, Any]:
    """`value` as a mapping with text keys. Raises ConfigError."""
    if not isinstance(value, dict) or not all(isinstance(name, str) for name in value):
        raise wrong(file, key, "must be a mapping with names as keys", value, "write NAME: VALUE lines")
    return value


def text(file: Path, key: str, value: Any) -> str:
    """`value` as a text that is not empty. Raises ConfigError."""
    if not isinstance(value, str) or not value:
        raise wrong(file, key, "must be a text", value, "put it into quotes if it is a number")
    return value


def check_keys(
    file: Path, key: str, value: dict[str, Any], known: Sequence[str], required: Sequence[str] = ()
) -> None:
    """Raise ConfigError on a key that is not known and on a required one that is missing."""
    for name in value:
        if name not in known:
            full = f"{key}.{name}" if key else name
            todo = f"{closest(name, tuple(known))}keys there: {', '.join(known)}"
            raise wrong(file, full, "no such key", None, todo)
    for name in required:
        if name not in value:
            raise wrong(file, f"{key}.{name}" if key else name, "is missing", None, f"write {name}: ...")


def wrong(file: Path, key: str, problem: str, got: object | None, todo: str) -> ConfigError:
    """The error for what stands at `key` of `file`."""
    return ConfigError(f"{file}: {key}" if key else str(file), problem, got=got, todo=todo)
