"""The true final answer of a sample, read as answers are, and when two texts are the same."""

from __future__ import annotations

from groundrl.geometry.labels import normalise_label
from groundrl.parsing.final import read_final
from groundrl.parsing.status import ParseStatus
from groundrl.types import Missing, Sample

_MORE_CHARS = 1000


def true_text(sample: Sample) -> str | Missing:
    """The truth as it is written, stripped; Missing names a sample that has none."""
    text = (sample.truth.answer or "").strip()
    return text or Missing(f"sample {sample.id} has no true answer")


def true_value(sample: Sample) -> str | Missing:
    """The truth in the canonical form of its task; Missing names a sample whose truth cannot be read."""
    text = true_text(sample)
    if isinstance(text, Missing):
        return text
    reading = read_final(text, sample.task)
    if reading.value is None:
        task = sample.task.value
        return Missing(f"sample {sample.id}: its true answer cannot be read as {task}: {text[:80]!r}")
    return reading.value


def comparable(answer: str, truth: str) -> bool:
    """Whether the answer is short enough to be equal to the truth under any normalisation of text.

    Unicode normalisation is quadratic in runs of combining marks, so that endless text must not reach it.
    """
    return len(answer) <= 4 * len(truth) + _MORE_CHARS


def same_text(answer: str | None, truth: str) -> bool:
    """Equal after `normalise_label`; False where there is no answer."""
    if answer is None or not comparable(answer, truth):
        return False
    return normalise_label(answer) == normalise_label(truth)


def read_ok(status: ParseStatus) -> dict[str, float]:
    """The detail of terms that compare final answers: whether the answer could be read."""
    return {"readable": float(status is ParseStatus.OK)}
