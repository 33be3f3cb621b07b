"""The settings of an earlier run, read back from its folder."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import yaml
from hydra.errors import HydraException
from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException

from groundrl.config.compose import compose_words
from groundrl.config.invocation import Invocation
from groundrl.config.locate import located
from groundrl.config.words import parted
from groundrl.errors import RunFolderError, UserError
from groundrl.run_config import RunConfig
from groundrl.training.run_folder import CONFIG, OVERRIDES


def saved_run(folder: Path) -> tuple[RunConfig, Invocation]:
    """The configuration a run was started with, even if defaults have changed since.

    The saved words give the types, the saved values replace what the words compose to today; differences
    are named on stderr. Raises RunFolderError when the saved values no longer fit.
    """
    try:
        words: Any = yaml.safe_load((folder / OVERRIDES).read_text("utf-8"))
        values: Any = yaml.safe_load((folder / CONFIG).read_text("utf-8"))
        if not isinstance(words, list) or not isinstance(values, dict):
            raise ValueError(f"{OVERRIDES} holds no list or {CONFIG} no mapping")
        composed = compose_words(words)
        today: Any = OmegaConf.to_container(composed, resolve=True, enum_to_str=True)
        for key, old, new in drift(values, today):
            print(f"note: {key} is {new!r} today; the run keeps its own {old!r}", file=sys.stderr)
        merged: Any = OmegaConf.merge(composed, values)
        config: RunConfig = located(merged)
    except (OSError, ValueError, yaml.YAMLError, HydraException, OmegaConfBaseException, UserError) as error:
        first = (str(error).splitlines() or [type(error).__name__])[0]
        raise RunFolderError(
            f"resume: the settings saved in {str(folder)!r} cannot be used with this version ({first}); "
            "check out the commit named in the run's record"
        ) from None
    preset = next((parted(word)[1] for word in words if parted(word)[0] == "experiment"), None)
    return config, Invocation(overrides=tuple(words), experiment=preset, resolved=values)


def drift(old: Any, new: Any, prefix: str = "") -> list[tuple[str, Any, Any]]:
    """Leaves that differ between two plain configurations: (key, old, new)."""
    if isinstance(old, dict) and isinstance(new, dict):
        out: list[tuple[str, Any, Any]] = []
        for key in sorted({*old, *new}):
            full = f"{prefix}.{key}" if prefix else str(key)
            out += drift(old.get(key), new.get(key), full)
        return out
    return [] if old == new else [(prefix, old, new)]
