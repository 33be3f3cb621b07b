"""TensorBoard event files in the run folder."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

from groundrl.errors import ConfigError
from groundrl.tracking.base import EVAL, Metrics, scalars


class TensorboardTracker:
    """Writes scalars under `tensorboard/`. `after` is the last step to keep of an earlier part of the run."""

    def __init__(self, run_dir: Path, *, after: int | None = None) -> None:
        try:
            module = importlib.import_module("torch.utils.tensorboard")
        except ImportError as error:
            todo = "pip install tensorboard, or use tracker=jsonl"
            raise ConfigError("tracker", "needs the package tensorboard", todo=todo) from error
        purge = None if after is None else after + 1
        self._writer = module.SummaryWriter(log_dir=str(run_dir / "tensorboard"), purge_step=purge)

    def log(self, step: int, kind: str, metrics: Metrics) -> None:
        for name, value in scalars(kind, metrics).items():
            self._writer.add_scalar(name, value, global_step=step)
        if kind == EVAL:
            self._writer.flush()

    def state(self) -> dict[str, Any]:
        return {}

    def finish(self, status: str) -> None:
        self._writer.close()
