"""What a data set is: a named, fingerprinted source of samples that can be asked for any index."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from groundrl.errors import ConfigError
from groundrl.types import Sample, Task


class Split(StrEnum):
    TRAIN = "train"
    HELDOUT = "heldout"


STRETCH = 10_000_000
"""Indices of an endless source that belong to one seed of the sampler."""


class SampleSource(Protocol):
    """Samples by index. `size` is None for a source that never ends; then every index >= 0 is valid."""

    size: int | None

    def sample(self, index: int) -> Sample: ...

    def tasks(self) -> frozenset[Task]: ...

    def fingerprint(self) -> str:
        """A hash that changes when any sample could change; stored with every result."""
        ...


@dataclass(kw_only=True, slots=True)
class DatasetConfig:
    """Settings every data set has.

    `train_size` limits the training pool to its first N samples (null: all of it).
    """

    train_size: int | None = None

    def __post_init__(self) -> None:
        if self.train_size is not None and self.train_size < 1:
            raise ConfigError(
                "train_size", "must be at least 1 or null", got=self.train_size, todo="use null for no limit"
            )

    def build(self, split: Split) -> SampleSource:
        raise ConfigError("", "this data set has no build()", todo="register a Config that overrides build")
