"""Composing a run without the command line: for tests, presets and tools."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from hydra import compose, initialize_config_dir
from hydra.core.global_hydra import GlobalHydra
from omegaconf import DictConfig

from groundrl.config.locate import located
from groundrl.config.registry import load_all
from groundrl.config.repo import conf_dir

if TYPE_CHECKING:
    from groundrl.run_config import RunConfig


@contextlib.contextmanager
def composing() -> Iterator[None]:
    """Hydra set up for `compose`; a Hydra that is already running gets its state back afterwards."""
    load_all()
    running = GlobalHydra.instance().hydra
    GlobalHydra.instance().clear()
    try:
        with initialize_config_dir(str(conf_dir()), version_base="1.3"):
            yield
    finally:
        GlobalHydra.instance().hydra = running


def compose_words(words: Sequence[str], *, with_hydra: bool = False) -> DictConfig:
    """The composed, unresolved configuration of a list of overrides, with Hydra's own node if asked for.

    Raises Hydra's errors.
    """
    with composing():
        return compose("config", overrides=list(words), return_hydra_config=with_hydra)


def compose_run(words: Sequence[str]) -> RunConfig:
    """The typed configuration of a list of overrides. Raises ConfigError or Hydra's own errors."""
    return located(compose_words(words))
