"""Weights & Biases, offline when no key is set."""

from __future__ import annotations

import importlib
import logging
import os
import secrets
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from groundrl.errors import ConfigError
from groundrl.tracking.base import Metrics, scalars
from groundrl.tracking.redact import redact

logger = logging.getLogger(__name__)


class WandbTracker:
    """Sends scalars to W&B; the run id is kept in `state()` so that a resumed run continues the same curves.

    `mode` is "auto" (online when WANDB_API_KEY is set, else offline), "online" or "offline". Metrics are
    drawn over a logged `step` and not over W&B's own counter, which refuses to go back after a resume.
    A connection that is lost later is reported once and does not stop the training.
    """

    def __init__(
        self,
        run_dir: Path,
        run_name: str,
        config: Mapping[str, Any],
        *,
        project: str,
        entity: str | None,
        mode: str,
        tags: Sequence[str],
        run_id: str | None,
    ) -> None:
        try:
            self._wandb = importlib.import_module("wandb")
        except ImportError as error:
            todo = "pip install wandb, or use tracker=jsonl"
            raise ConfigError("tracker", "needs the package wandb", todo=todo) from error
        self.run_id = run_id or secrets.token_hex(4)
        self._lost = False
        options = {
            "project": project,
            "entity": entity,
            "name": run_name,
            "id": self.run_id,
            "resume": "allow",
            "dir": str(run_dir),
            "tags": list(tags),
            "config": redact(dict(config)),
        }
        has_key = bool(os.environ.get("WANDB_API_KEY"))
        chosen = mode if mode != "auto" else ("online" if has_key else "offline")
        self._run = self._start(options, chosen, fall_back=mode == "auto")
        self._run.define_metric("*", step_metric="step")

    def _start(self, options: dict[str, Any], mode: str, *, fall_back: bool) -> Any:
        settings = self._wandb.Settings(
            silent=True,
            console="off",
            save_code=False,
            disable_code=True,
            disable_git=True,
            x_disable_meta=True,
        )
        try:
            return self._wandb.init(**options, mode=mode, settings=settings)
        except self._wandb.errors.Error as error:
            if mode == "offline" or not fall_back:
                raise ConfigError(
                    "tracker.mode", f"W&B did not start ({error})", got=mode, todo="use tracker.mode=offline"
                ) from error
            logger.warning("W&B did not start (%s); this run is recorded offline", error)
            return self._wandb.init(**options, mode="offline", settings=settings)

    def log(self, step: int, kind: str, metrics: Metrics) -> None:
        if self._lost:
            return
        try:
            self._run.log({"step": step, **scalars(kind, metrics)})
        except (self._wandb.errors.Error, OSError) as error:
            self._lost = True
            logger.warning("W&B stopped answering (%s); metrics.jsonl goes on", error)

    def state(self) -> dict[str, Any]:
        return {"id": self.run_id}

    def finish(self, status: str) -> None:
        """Close the run; W&B shows it as crashed unless `status` is "finished"."""
        if not self._lost:
            self._run.finish(exit_code=0 if status == "finished" else 1)
