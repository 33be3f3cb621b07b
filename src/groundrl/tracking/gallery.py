"""`gallery.jsonl` and `images/`: what the policy answered, to be looked at later."""

from __future__ import annotations

import hashlib
import io
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from groundrl.tracking.base import EVAL, Picture
from groundrl.tracking.lines import JsonLines, read_lines, write_atomic
from groundrl.types import LabeledBox, RewardBreakdown, Rollout, Sample, Scored

if TYPE_CHECKING:
    from PIL.Image import Image

FILE_NAME = "gallery.jsonl"
IMAGE_FOLDER = "images"


@dataclass(frozen=True, slots=True, kw_only=True)
class GalleryRollout:
    """One answer to show.

    `kind` is "greedy" or "sampled"; `boxes` are the parsed boxes in original pixels, `rejected` says why
    others were not taken, `think` is the reasoning part of the text where there is one.
    """

    kind: str
    rollout: Rollout
    breakdown: RewardBreakdown
    boxes: Sequence[LabeledBox] = ()
    rejected: Sequence[str] = ()
    think: str | None = None


class Gallery:
    """Chooses what is shown and writes it.

    `samples` is how many held-out samples are followed through all evaluations (the first ones offered);
    every `train_every`-th step one training group is kept, 0 for none. `after` is the last step to keep of
    an earlier part of the same run, `final` the run's last step (`JsonLines.truncate_after`).
    """

    def __init__(
        self,
        run_dir: Path,
        *,
        samples: int,
        train_every: int,
        after: int | None = None,
        final: int | None = None,
    ) -> None:
        self._run_dir = run_dir
        self._samples = samples
        self._train_every = train_every
        self._lines = JsonLines(run_dir / FILE_NAME)
        self._followed: list[str] = []
        if after is not None:
            self._lines.truncate_after(after, final=final)
            for record in read_lines(self._lines.path).records:
                if record.get("phase") == EVAL:
                    self.follows(str(record.get("sample_id")))

    def follows(self, sample_id: str) -> bool:
        """Whether this held-out sample is shown; the first `samples` ids asked for are, from then on."""
        if sample_id not in self._followed and len(self._followed) < self._samples:
            self._followed.append(sample_id)
        return sample_id in self._followed

    def wants_train(self, step: int) -> bool:
        """Whether a training group of this step is to be added."""
        return self._train_every > 0 and step % self._train_every == 0

    def add(self, step: int, phase: str, sample: Sample, rollouts: Sequence[GalleryRollout]) -> list[Picture]:
        """Write one record, and the sample's first image if it is not there yet. Raises OSError.

        Returns the answers for trackers that show them elsewhere.
        """
        image = sample.images[0] if sample.images else None
        relative = f"{IMAGE_FOLDER}/{image_name(sample.id)}" if image else None
        if image and relative and not (self._run_dir / relative).exists():
            write_atomic(self._run_dir / relative, _png(image))
        self._lines.append(
            {
                "step": step,
                "phase": phase,
                "sample_id": sample.id,
                "task": sample.task,
                "question": sample.question,
                "targets": sample.targets,
                "answer": sample.truth.answer,
                "image": relative,
                "size": image.size if image else None,
                "truth": _boxes(sample.truth.boxes),
                "rollouts": [_rollout(entry) for entry in rollouts],
            }
        )
        return [
            Picture(
                step=step,
                phase=phase,
                sample_id=sample.id,
                question=sample.question or ", ".join(sample.targets),
                image=self._run_dir / relative if relative else None,
                truth=_first(sample.truth.boxes),
                kind=entry.kind,
                text=entry.rollout.text,
                parse_status=str(entry.breakdown.parse_status),
                boxes=_first(entry.boxes),
                reward=entry.breakdown.total,
                tokens=entry.rollout.num_student_tokens,
            )
            for entry in rollouts
        ]

    def close(self) -> None:
        self._lines.close()


def image_name(sample_id: str) -> str:
    """A file name for a sample id; ids that had to be changed get a hash, so that no two share a file."""
    safe = re.sub(r"[^A-Za-z0-9._-]", "_", sample_id)[:80].lstrip(".") or "sample"
    if safe == sample_id:
        return f"{safe}.png"
    digest = hashlib.sha256(sample_id.encode("utf-8", "surrogatepass")).hexdigest()[:8]
    return f"{safe}-{digest}.png"


def _rollout(entry: GalleryRollout) -> dict[str, Any]:
    return {
        "kind": entry.kind,
        "text": entry.rollout.text,
        "think": entry.think,
        "status": entry.rollout.status,
        "parse_status": entry.breakdown.parse_status,
        "boxes": _boxes(entry.boxes),
        "rejected": entry.rejected,
        "tokens": entry.rollout.num_student_tokens,
        "reward": _reward(entry.breakdown),
    }


def _reward(breakdown: RewardBreakdown) -> dict[str, Any]:
    terms: dict[str, Any] = {}
    for name, scored in breakdown.terms.items():
        weight = breakdown.weights.get(name, 1.0)
        if isinstance(scored, Scored):
            terms[name] = {"value": scored.value, "weight": weight, "detail": scored.detail}
        else:
            terms[name] = {"value": None, "weight": weight, "detail": {}, "missing": scored.reason}
    return {"total": breakdown.total, "terms": terms}


def _boxes(boxes: Sequence[LabeledBox]) -> list[dict[str, Any]]:
    return [{"bbox": box.xyxy, "label": box.label} for box in _first(boxes)]


def _first(boxes: Sequence[LabeledBox]) -> list[LabeledBox]:
    """Boxes of the first image, the one that is shown."""
    return [box for box in boxes if box.image == 0]


def _png(image: Image) -> bytes:
    buffer = io.BytesIO()
    image.convert("RGB").save(buffer, format="PNG")
    return buffer.getvalue()
