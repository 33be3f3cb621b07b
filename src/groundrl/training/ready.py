"""Whether a run can start on this machine: asked before anything is written, and of every job of a sweep."""

from __future__ import annotations

import json
from pathlib import Path

from groundrl.errors import ConfigError
from groundrl.models.family import family_of
from groundrl.models.load import check_folder, pick_device
from groundrl.run_config import DebugMode, RunConfig
from groundrl.training.run_folder import check_new, check_run_folder


def check_ready(config: RunConfig) -> None:
    """Raise UserError when weights, device or run folder are not as the run needs them."""
    if config.resume is not None:
        check_run_folder(config.resume)
        return
    check_new(config.paths)
    if config.debug.mode is DebugMode.plan:
        return
    model = config.model
    _check_checkpoint(model.path, "model.path")
    if model.init_from is not None:
        _check_checkpoint(model.init_from, "model.init_from")
    if config.algorithm.training_steps() > 0:
        for name, path in model.references.items():
            _check_checkpoint(path, f"model.references.{name}")
    pick_device(model)


def _check_checkpoint(path: str, key: str) -> None:
    folder = check_folder(path, key)
    family_of(read_model_type(folder / "config.json", key), str(folder))


def read_model_type(file: Path, key: str) -> str:
    """`model_type` of a checkpoint's config.json. Raises ConfigError when the file is not one."""
    try:
        settings = json.loads(file.read_text("utf-8"))
        return str(settings["model_type"])
    except (ValueError, KeyError, TypeError):
        raise ConfigError(
            key, "config.json is no model's configuration", got=str(file), todo="copy it from the original"
        ) from None
