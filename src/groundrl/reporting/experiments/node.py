"""A place in a YAML file that knows its file and key, so that every mistake can be named."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from groundrl.config.locate import closest
from groundrl.errors import ConfigError, NoFileError
from groundrl.sweeping.yaml_file import read_yaml


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """`value` as it was read from `file` at the dotted `key` (empty for the whole file)."""

    file: str
    key: str
    value: Any

    def error(self, problem: str, *, todo: str = "", got: object | None = None) -> ConfigError:
        """An error that names the file and the key."""
        return ConfigError(f"{self.file}: {self.key}" if self.key else self.file, problem, got=got, todo=todo)

    def items(self) -> dict[str, Node]:
        """The entries of a mapping by name. Raises ConfigError if it is none."""
        if not isinstance(self.value, dict):
            raise self.error("must be a mapping", got=self.value, todo="write NAME: VALUE lines")
        return {
            plain(name): Node(
                file=self.file, key=f"{self.key}.{plain(name)}" if self.key else plain(name), value=value
            )
            for name, value in self.value.items()
        }

    def fields(self, *, need: Iterable[str] = (), may: Iterable[str] = ()) -> dict[str, Node]:
        """A mapping that has all keys of `need` and no key beside those and `may`.

        An entry of `may` that is null counts as absent. Raises ConfigError.
        """
        found, need, may = self.items(), list(need), list(may)
        for name, node in found.items():
            if name not in [*need, *may]:
                listed = f"keys: {', '.join([*need, *may])}"
                raise node.error("unknown key", todo=closest(name, [*need, *may]) + listed)
        for name in need:
            if name not in found:
                raise self.error(f"has no {name}", todo=f"add {name}: ...")
        return {name: node for name, node in found.items() if name in need or node.value is not None}

    def list(self) -> list[Node]:
        """The entries of a list. Raises ConfigError if it is none."""
        if not isinstance(self.value, list):
            raise self.error("must be a list", got=self.value, todo="write [a, b] or lines that begin with -")
        return [
            Node(file=self.file, key=f"{self.key}[{index}]", value=value)
            for index, value in enumerate(self.value)
        ]

    def text(self) -> str:
        """A text that is not empty. Raises ConfigError."""
        if not isinstance(self.value, str) or not self.value.strip():
            raise self.error("must be a text", got=self.value, todo="put it in quotes")
        return self.value.strip()

    def word(self) -> str:
        """A text, number or yes/no as a sweep passes it on. Raises ConfigError."""
        if isinstance(self.value, dict | list):
            raise self.error("must be one value", got=self.value)
        return plain(self.value)

    def number(self) -> float:
        """A finite number. Raises ConfigError."""
        value = self.value
        if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
            raise self.error("must be a number", got=value)
        return float(value)

    def whole(self, *, least: int) -> int:
        """A whole number, `least` or more. Raises ConfigError."""
        value = self.value
        if isinstance(value, bool) or not isinstance(value, int) or value < least:
            raise self.error(f"must be a whole number, {least} or more", got=value)
        return value

    def one_of(self, options: Iterable[str]) -> str:
        """A word out of `options`. Raises ConfigError, which lists them."""
        value, options = self.word(), list(options)
        if value not in options:
            listed = f"there is {', '.join(options)}" if options else "there is none"
            raise self.error("is not known", got=value, todo=closest(value, options) + listed)
        return value


def plain(value: object) -> str:
    """A YAML scalar as a sweep's axis holds it; null is the word `null`."""
    return "null" if value is None else str(value)


def read_node(path: Path, root: Path) -> Node:
    """The whole of a YAML file; errors name it relative to `root`.

    Raises NoFileError if it is not there and ConfigError if it is no YAML or no mapping.
    """
    name = path.relative_to(root).as_posix() if path.is_relative_to(root) else str(path)
    if not path.is_file():
        raise NoFileError(name, "is not there", todo="write it, or correct the id")
    return Node(file=name, key="", value=read_yaml(path))
