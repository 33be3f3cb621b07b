"""Composing a run without the command line: for tests, presets and tools."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from hydra import compose, initialize_config_dir
from hydra.core.global_hydra import GlobalHydra

from groundrl.config.locate import located
from groundrl.config.registry import load_all
from groundrl.config.repo import conf_dir

if TYPE_CHECKING:
    from groundrl.run_config import RunConfig


def compose_run(words: Sequence[str]) -> RunConfig:
    """The typed configuration of a list of overrides. Raises ConfigError or Hydra's own errors."""
    load_all()
    GlobalHydra.instance().clear()
    with initialize_config_dir(str(conf_dir()), version_base="1.3"):
        return located(compose("config", overrides=list(words)))
