"""`@register`: makes a component's Config known to Hydra under `schema/<group>/<name>`.

A YAML option refers to it from its defaults list (`/schema/<group>/<name>@_here_`). Modules that hold
Configs import no torch, so that `--help` composes quickly; what needs torch lives in a sibling module that
`build` imports.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from hydra.core.config_store import ConfigStore

C = TypeVar("C", bound=type)

PACKAGE = Path(__file__).resolve().parents[1]
_DECORATED = re.compile(r"^@register(_root)?\(", flags=re.M)
_options: dict[type, str] = {}


def register(group: str, name: str) -> Callable[[C], C]:
    """Register a Config dataclass as the schema of option `name` of `group`."""

    def decorate(cls: C) -> C:
        ConfigStore.instance().store(group=f"schema/{group}", name=name, node=cls)
        _options[cls] = f"{group}={name}"
        return cls

    return decorate


def register_root(name: str) -> Callable[[C], C]:
    """Register the root schema that `conf/config.yaml` starts from."""

    def decorate(cls: C) -> C:
        ConfigStore.instance().store(name=name, node=cls)
        _options[cls] = name
        return cls

    return decorate


def registered() -> tuple[type, ...]:
    """All Config classes that are an option's schema."""
    return tuple(_options)


def is_base(kind: type) -> bool:
    """Whether `kind` is only the base of options: never registered itself, while a subclass is."""
    return kind not in _options and any(issubclass(option, kind) for option in _options)


def config_modules() -> list[str]:
    """Names of the modules whose source decorates a class with `register`."""
    return [
        ".".join(file.relative_to(PACKAGE.parent).with_suffix("").parts)
        for file in sorted(PACKAGE.rglob("*.py"))
        if _DECORATED.search(file.read_text("utf-8"))
    ]


def load_all() -> None:
    """Import every module that registers a Config, so that all schemas are known.

    A new component needs no entry in any list. None of these modules may import torch (a test asserts that).
    """
    for name in config_modules():
        importlib.import_module(name)
