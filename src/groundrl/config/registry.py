"""`@register`: makes a component's Config known to Hydra under `schema/<group>/<name>`.

A YAML option refers to it from its defaults list (`/schema/<group>/<name>@_here_`). Modules that hold
Configs import no torch, so that `--help` composes quickly; what needs torch lives in a sibling module that
`build` imports.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable
from typing import TypeVar

from hydra.core.config_store import ConfigStore

C = TypeVar("C", bound=type)

_PACKAGES = (
    "data",
    "prompting",
    "rewards",
    "rollout",
    "rollout.engines",
    "models",
    "advantages",
    "losses",
    "learner",
    "evaluation",
    "tracking",
    "training",
)


def register(group: str, name: str) -> Callable[[C], C]:
    """Register a Config dataclass as the schema of option `name` of `group`."""

    def decorate(cls: C) -> C:
        ConfigStore.instance().store(group=f"schema/{group}", name=name, node=cls)
        return cls

    return decorate


def register_root(name: str) -> Callable[[C], C]:
    """Register the root schema that `conf/config.yaml` starts from."""

    def decorate(cls: C) -> C:
        ConfigStore.instance().store(name=name, node=cls)
        return cls

    return decorate


def load_all() -> None:
    """Import every module named `config` or registered by convention, so that all schemas are known.

    A module takes part when its package lists it or when its source calls `register`; torch must not be
    imported by any of them (a test asserts that).
    """
    for package_name in _PACKAGES:
        package = importlib.import_module(f"groundrl.{package_name}")
        names = getattr(package, "CONFIG_MODULES", None)
        if names is None:
            names = [info.name for info in pkgutil.iter_modules(package.__path__) if not info.ispkg]
        for name in names:
            importlib.import_module(f"groundrl.{package_name}.{name}")
    importlib.import_module("groundrl.run_config")
