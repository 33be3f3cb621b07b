"""Reads every sample of the chosen data set and says what is wrong with it.

    make data-check OVERRIDES="dataset=jsonl dataset.path=my/train.jsonl"

Prints counts per split, every kind of problem with its first rows, and the pictures that both splits hold:
evaluation on what was trained on is no evaluation. Exit code 1 when there is a problem.
"""

from __future__ import annotations

import hashlib
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from groundrl.config.compose import compose_run
from groundrl.config.entry import guard
from groundrl.data.base import SampleSource, Split
from groundrl.errors import ConfigError, DataError
from groundrl.types import Sample

SHOWN = 5
ENDLESS = 1000
"""Samples that are read of a source without end."""


@dataclass(slots=True, kw_only=True)
class Found:
    """What one split holds."""

    samples: int = 0
    counts: Counter[str] = field(default_factory=Counter)
    labels: Counter[str] = field(default_factory=Counter)
    problems: list[str] = field(default_factory=list)
    pictures: dict[str, str] = field(default_factory=dict)


def look(source: SampleSource) -> Found:
    """Read all samples of a source (the first thousand of an endless one)."""
    found = Found()
    for index in range(ENDLESS if source.size is None else source.size):
        try:
            sample = source.sample(index)
        except DataError as error:
            found.problems.append(str(error))
            continue
        found.samples += 1
        _count(sample, found)
    return found


def _count(sample: Sample, found: Found) -> None:
    found.counts[f"task {sample.task}"] += 1
    found.counts["images"] += len(sample.images)
    found.counts["true boxes"] += len(sample.truth.boxes)
    if not sample.images:
        found.counts["samples without an image"] += 1
    if sample.targets and not sample.truth.boxes:
        found.counts["samples in which nothing asked for is there"] += 1
    found.labels.update(box.label for box in sample.truth.boxes if box.label)
    for image in sample.images:
        digest = hashlib.sha256(repr(image.size).encode() + image.tobytes()).hexdigest()
        found.pictures.setdefault(digest, sample.id)


def report(words: Sequence[str]) -> int:
    """Print what both splits hold; 1 if anything is wrong."""
    config = compose_run(words).dataset
    seen: dict[Split, Found] = {}
    wrong = False
    for split in Split:
        try:
            source = config.build(split)
        except ConfigError as error:
            raise error if error.key.startswith("dataset") else error.at("dataset") from None
        found = seen[split] = look(source)
        size = "no end; the first" if source.size is None else "all"
        print(f"{split}: {found.samples} samples ({size} {found.samples + len(found.problems)} read)")
        for name, count in sorted(found.counts.items()):
            print(f"  {count:>8} {name}")
        common = ", ".join(f"{label} {count}" for label, count in found.labels.most_common(SHOWN))
        if common:
            print(f"  {len(found.labels):>8} labels: {common}")
        if found.problems:
            wrong = True
            print(f"  {len(found.problems):>8} samples cannot be used:")
            for problem in found.problems[:SHOWN]:
                print(f"           {problem}")
    shared = seen[Split.TRAIN].pictures.keys() & seen[Split.HELDOUT].pictures.keys()
    print(f"pictures that both splits hold: {len(shared)}")
    for digest in sorted(shared)[:SHOWN]:
        print(f"           {seen[Split.TRAIN].pictures[digest]} and {seen[Split.HELDOUT].pictures[digest]}")
    return int(wrong or bool(shared))


if __name__ == "__main__":
    raise SystemExit(guard(report, sys.argv[1:], words=sys.argv[1:]))
