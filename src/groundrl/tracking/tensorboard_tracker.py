"""TensorBoard event files in the run folder."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from groundrl.errors import ConfigError
from groundrl.tracking.base import EVAL, Metrics, Picture, scalars
from groundrl.tracking.drawing import drawing
from groundrl.tracking.guard import Guard


class TensorboardTracker:
    """Writes scalars and images with their boxes drawn in, under `tensorboard/`.

    `after` is the last step to keep of an earlier part of the run. A failure is reported once and does not
    stop the training.
    """

    def __init__(self, run_dir: Path, *, after: int | None = None) -> None:
        try:
            module = importlib.import_module("torch.utils.tensorboard")
        except ImportError as error:
            todo = "pip install tensorboard, or use tracker=jsonl"
            raise ConfigError("tracker", "needs the package tensorboard", todo=todo) from error
        purge = None if after is None else after + 1
        self._writer = module.SummaryWriter(log_dir=str(run_dir / "tensorboard"), purge_step=purge)
        self._numbers = Guard("TensorBoard files cannot be written ({}); metrics.jsonl goes on", (OSError,))
        meaning = "TensorBoard gets no more pictures ({}); gallery.jsonl has them"
        self._pictures = Guard(meaning, (OSError, ValueError))

    def log(self, step: int, kind: str, metrics: Metrics) -> None:
        self._numbers(lambda: self._log(step, kind, metrics))

    def _log(self, step: int, kind: str, metrics: Metrics) -> None:
        for name, value in scalars(kind, metrics).items():
            self._writer.add_scalar(name, value, global_step=step)
        if kind == EVAL:
            self._writer.flush()

    def show(self, pictures: Sequence[Picture]) -> None:
        """Held-out samples keep their tag (`answers/eval/SAMPLE/NUMBER`) through all steps."""
        seen: dict[str, int] = {}
        for picture in pictures:
            name = f"{picture.phase}/{picture.sample_id}" if picture.phase == EVAL else picture.phase
            number = seen[name] = seen.get(name, -1) + 1
            self._pictures(lambda tag=f"answers/{name}/{number}", one=picture: self._draw(tag, one))

    def _draw(self, tag: str, picture: Picture) -> None:
        if picture.image is not None:
            pixels = np.asarray(drawing(picture, picture.image))
            self._writer.add_image(tag, pixels, global_step=picture.step, dataformats="HWC")

    def state(self) -> dict[str, Any]:
        return {}

    def finish(self, status: str, summary: Metrics) -> None:
        """Close the files; the last evaluation's scalars are the summary."""
        self._numbers(self._writer.close)
