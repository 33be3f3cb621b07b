"""Turns a composed configuration into dataclasses so that a refused value is named by its full key.

A component's `__post_init__` knows its own field (`temperature`), not where it is mounted
(`rollout.temperature`); children are made first, one by one, and the prefix is added on the way out.
"""

from __future__ import annotations

import dataclasses
import difflib
from collections.abc import Sequence
from typing import Any

from omegaconf import DictConfig, ListConfig, OmegaConf

from groundrl.config.registry import is_base
from groundrl.errors import ConfigError


def located(node: DictConfig, prefix: str = "") -> Any:
    """The dataclass instance of a structured node. Raises ConfigError with the full dotted key."""
    kind = OmegaConf.get_type(node)
    if kind is not None and dataclasses.is_dataclass(kind):
        _check_names(node, tuple(field.name for field in dataclasses.fields(kind)), prefix)
    values: dict[str, Any] = {}
    for key in node:
        name = str(key)
        full = _join(prefix, name)
        value = node[key]
        if isinstance(value, DictConfig):
            values[name] = located(value, full)
        elif isinstance(value, ListConfig):
            values[name] = OmegaConf.to_container(value, resolve=True)
        else:
            values[name] = value
    if kind is None or not dataclasses.is_dataclass(kind):
        return values
    if is_base(kind):
        raise ConfigError(
            prefix, "no option is chosen", todo=f"choose one: {prefix.replace('.', '/')}=OPTION"
        )
    try:
        return kind(**values)
    except ConfigError as error:
        raise error.at(prefix) if prefix else error from None


def _check_names(node: DictConfig, known: tuple[str, ...], prefix: str) -> None:
    """Refuse fields added to or removed from a structured node."""
    present = [str(key) for key in node]
    for name in present:
        if name not in known:
            raise unknown_setting(_join(prefix, name), known)
    for name in known:
        if name not in present:
            full = _join(prefix, name)
            raise ConfigError(full, "cannot be removed", todo=f"write {full}=VALUE")


def unknown_setting(key: str, known: tuple[str, ...]) -> ConfigError:
    """The error for a name that is none of the settings `known` at its place."""
    listed = f"settings there: {', '.join(known)}" if known else "see python train.py --help"
    return ConfigError(key, "no such setting", todo=closest(key.rpartition(".")[2], known) + listed)


def closest(name: str, known: Sequence[str]) -> str:
    """`did you mean X? ` for the name most like `name`, or nothing."""
    found = difflib.get_close_matches(name, known, n=1)
    return f"did you mean {found[0]}? " if found else ""


def _join(prefix: str, name: str) -> str:
    return f"{prefix}.{name}" if prefix else name
