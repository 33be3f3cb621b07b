"""Weights & Biases, offline when no key is set."""

from __future__ import annotations

import contextlib
import importlib
import logging
import os
import secrets
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from groundrl.errors import ConfigError
from groundrl.tracking.base import Metrics, Picture, scalars
from groundrl.tracking.guard import Guard
from groundrl.tracking.redact import redact
from groundrl.tracking.wandb_table import COLUMNS, row

logger = logging.getLogger(__name__)

FINISH_TIMEOUT = 600.0
"""Seconds that the end of a run waits for an upload; what is left lies on disk for `wandb sync`."""


class WandbTracker:
    """Sends numbers, a summary and tables of answers; the run id is kept in `state()`, so that a resumed run
    continues the same curves.

    `mode` is "auto" (online when WANDB_API_KEY is set, else offline), "online" or "offline". Metrics are
    drawn over a logged `step` and not over W&B's own counter, which refuses to go back after a resume.
    Inside a sweep's agent W&B chooses project and id, and the sweep's words own the top of the config: the
    settings then stand under `settings`. A connection that is lost later is reported once and does not stop
    the training.
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
        group: str | None,
        tags: Sequence[str],
        run_id: str | None,
    ) -> None:
        try:
            self._wandb = importlib.import_module("wandb")
        except ImportError as error:
            todo = "pip install wandb, or use tracker=jsonl"
            raise ConfigError("tracker", "needs the package wandb", todo=todo) from error
        self._run_dir = run_dir
        settings = redact(dict(config))
        options = {
            "project": project,
            "entity": entity,
            "name": run_name,
            "id": run_id or secrets.token_hex(4),
            "resume": "allow",
            "dir": str(run_dir),
            "group": group,
            "tags": list(tags),
            "config": {"settings": settings} if os.environ.get("WANDB_SWEEP_ID") else settings,
        }
        has_key = bool(os.environ.get("WANDB_API_KEY"))
        chosen = mode if mode != "auto" else ("online" if has_key else "offline")
        self._run = self._start(options, chosen, fall_back=mode == "auto")
        self.run_id = str(self._run.id)
        self._run.define_metric("*", step_metric="step")
        failures = (self._wandb.errors.Error, OSError)
        self._numbers = Guard("W&B stopped answering ({}); metrics.jsonl goes on", failures)
        meaning = "W&B gets no more pictures ({}); gallery.jsonl has them"
        self._pictures = Guard(meaning, (*failures, ValueError, TypeError))

    def _start(self, options: dict[str, Any], mode: str, *, fall_back: bool) -> Any:
        settings = self._wandb.Settings(
            silent=True,
            console="off",
            save_code=False,
            disable_code=True,
            disable_git=True,
            x_disable_meta=True,
            finish_timeout=FINISH_TIMEOUT,
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
        self._numbers(lambda: self._run.log({"step": step, **scalars(kind, metrics)}))

    def show(self, pictures: Sequence[Picture]) -> None:
        """One table a call, `answers/eval` or `answers/train`, with the boxes of truth and answer."""
        if not self._numbers.lost:
            self._pictures(lambda: self._show(pictures))

    def _show(self, pictures: Sequence[Picture]) -> None:
        first = pictures[0]
        with self._staging():
            table = self._wandb.Table(columns=list(COLUMNS))
            for picture in pictures:
                table.add_data(*row(picture, self._wandb.Image))
            self._run.log({"step": first.step, f"answers/{first.phase}": table})

    @contextlib.contextmanager
    def _staging(self) -> Iterator[None]:
        """W&B copies what a table holds under WANDB_DATA_DIR; unless that is set, into the run folder and not
        into the user's home, so that an offline run is whole."""
        key = "WANDB_DATA_DIR"
        if os.environ.get(key):
            yield
            return
        os.environ[key] = str((self._run_dir / "wandb").resolve())
        try:
            yield
        finally:
            del os.environ[key]

    def state(self) -> dict[str, Any]:
        return {"id": self.run_id}

    def finish(self, status: str, summary: Metrics) -> None:
        """Store the summary and close the run; W&B shows it as crashed unless `status` is "finished"."""
        self._numbers(lambda: self._finish(status, summary))

    def _finish(self, status: str, summary: Metrics) -> None:
        self._run.summary.update({"status": status, **scalars("train", summary)})
        self._run.finish(exit_code=0 if status == "finished" else 1)
