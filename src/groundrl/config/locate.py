"""Turns a composed configuration into dataclasses so that a refused value is named by its full key.

A component's `__post_init__` knows its own field (`temperature`), not where it is mounted
(`rollout.temperature`); children are made first, one by one, and the prefix is added on the way out.
"""

from __future__ import annotations

import dataclasses
from typing import Any

from omegaconf import DictConfig, ListConfig, OmegaConf

from groundrl.errors import ConfigError


def located(node: DictConfig, prefix: str = "") -> Any:
    """The dataclass instance of a structured node. Raises ConfigError with the full dotted key."""
    kind = OmegaConf.get_type(node)
    values: dict[str, Any] = {}
    for key in node:
        name = str(key)
        full = f"{prefix}.{name}" if prefix else name
        if OmegaConf.is_missing(node, key):
            raise ConfigError(full, "has no value", todo=f"give {full}=VALUE")
        value = node[key]
        if isinstance(value, DictConfig):
            values[name] = located(value, full)
        elif isinstance(value, ListConfig):
            values[name] = OmegaConf.to_container(value, resolve=True)
        else:
            values[name] = value
    if kind is None or not dataclasses.is_dataclass(kind):
        return values
    try:
        return kind(**values)
    except ConfigError as error:
        raise error.at(prefix) if prefix else error from None
