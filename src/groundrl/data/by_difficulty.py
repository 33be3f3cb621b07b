"""`dataset=by_difficulty`: the samples of a data set that a policy gets right sometimes, by an audit of it.

    make audit TO=audit.jsonl SAMPLES=512 OVERRIDES="dataset=charts reward=answer task=text"
    python train.py dataset=by_difficulty dataset@dataset.of=charts dataset.file=audit.jsonl \\
        'dataset.successes=[1, 7]' reward=answer task=text

Only the training split is filtered: the held-out one stays what it is, or its numbers would not compare.
"""

from __future__ import annotations

import hashlib
import json
import logging
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from groundrl.config.registry import register
from groundrl.data.base import DatasetConfig, SampleSource, Split
from groundrl.errors import ConfigError, DataError, NoFileError
from groundrl.tracking.lines import read_lines
from groundrl.types import Sample, Task

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Audit:
    """What an audit file says: how it was made, and for each sample how many rollouts were right, and of how
    many that is known."""

    made: dict[str, Any]
    right: dict[int, int]
    known: dict[int, int]


def read_audit(path: Path) -> Audit:
    """Raises NoFileError, and DataError naming the row for a file that is no audit. A last half line, of an
    audit that was stopped, is left out."""
    if not path.is_file():
        raise NoFileError(
            "file", "no such file", got=str(path), todo="make it: make audit TO=FILE SAMPLES=512"
        )
    found = read_lines(path)
    if not found.records or "audit" not in found.records[0]:
        raise DataError(path, "is no audit: its first line does not say how it was made", row=1)
    right: dict[int, int] = {}
    known: dict[int, int] = {}
    for row, record in enumerate(found.records[1:], start=2):
        try:
            index, right_count, known_count = (int(record[key]) for key in ("index", "right", "known"))
        except (KeyError, TypeError, ValueError):
            raise DataError(path, "needs whole numbers index, right and known", row=row) from None
        if index < 0 or not 0 <= right_count <= known_count:
            raise DataError(path, f"holds impossible numbers: {json.dumps(record)[:80]}", row=row)
        right[index], known[index] = right_count, known_count
    return Audit(made=dict(found.records[0]["audit"]), right=right, known=known)


@register("dataset", "by_difficulty")
@dataclass(kw_only=True, slots=True)
class ByDifficultyConfig(DatasetConfig):
    """Settings of a filtered data set.

    of         the data set that was audited, with the settings it was audited with
    file       the audit
    successes  [min, max] right rollouts of a sample that is kept; of 8, [1, 7] leaves out what is always or
               never right, which GRPO learns nothing from
    """

    of: DatasetConfig = field(default_factory=DatasetConfig)
    file: str = ""
    successes: list[int] = field(default_factory=lambda: [1, 7])

    def __post_init__(self) -> None:
        DatasetConfig.__post_init__(self)
        if len(self.successes) != 2 or not 0 <= self.successes[0] <= self.successes[1]:
            problem = "must be [min, max] with 0 <= min <= max"
            raise ConfigError("successes", problem, got=list(self.successes), todo="e.g. [1, 7]")

    def build(self, split: Split) -> SampleSource:
        """Raises ConfigError when the audit is of other data, or keeps nothing."""
        try:
            source = self.of.build(split)
        except ConfigError as error:
            raise error if error.key.startswith("dataset.") else error.at("of") from None
        if split is Split.HELDOUT:
            return source
        audit = read_audit(Path(self.file))
        if audit.made.get("data") != source.fingerprint():
            todo = "audit these, or set dataset.of to what was audited"
            raise ConfigError(
                "file", "is an audit of other samples than dataset.of", got=self.file, todo=todo
            )
        low, high = self.successes
        kept = [
            index for index in sorted(audit.right)
            if audit.known[index] == audit.made.get("rollouts") and low <= audit.right[index] <= high
        ]  # fmt: skip
        unknown = sum(known != audit.made.get("rollouts") for known in audit.known.values())
        text = "%s: %d of %d audited samples have %d to %d right rollouts; %d are not fully judged, left out"
        logger.info(text, self.file, len(kept), len(audit.right), low, high, unknown)
        if not kept:
            todo = f"widen it; right rollouts: {_counts(audit)}"
            raise ConfigError("successes", "keeps no sample", got=list(self.successes), todo=todo)
        return ByDifficulty(source, kept[: self.train_size], hashlib.sha256(repr(kept).encode()).hexdigest())


def _counts(audit: Audit) -> str:
    """`0: 12, 8: 30`: how many samples have so many right rollouts."""
    values = list(audit.right.values())
    return ", ".join(f"{count}: {values.count(count)}" for count in sorted(set(values)))


class ByDifficulty:
    """The kept samples, in the order of the data set."""

    def __init__(self, source: SampleSource, kept: list[int], digest: str) -> None:
        self.source = source
        self.kept = kept
        self.digest = digest
        self.size: int | None = len(kept)

    def sample(self, index: int) -> Sample:
        """Kept sample `index`. Raises DataError for one that is not there."""
        if not 0 <= index < len(self.kept):
            raise DataError("by_difficulty", f"index {index} is outside the {len(self.kept)} kept", row=index)
        return self.source.sample(self.kept[index])

    def tasks(self) -> frozenset[Task]:
        return self.source.tasks()

    def fingerprint(self) -> str:
        text = f"{self.source.fingerprint()} {self.digest} {len(self.kept)}"
        return hashlib.sha256(text.encode()).hexdigest()[:16]
