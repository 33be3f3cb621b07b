"""`dataset=mixture`: several data sets in exact proportions.

    python train.py dataset=mixture +dataset@dataset.parts.a=shapes_rec +dataset@dataset.parts.b=jsonl \\
        dataset.parts.b.path=own.jsonl '+dataset.weights={a: 3, b: 1}'

Every `cycle` consecutive samples hold each part in proportion to its weight, rounded to whole samples by
largest remainder, in an order that is shuffled once. A part that ends begins again in a new order.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from groundrl.config.registry import register
from groundrl.data.base import STRETCH, DatasetConfig, SampleSource, Split
from groundrl.data.overlap import image_ids
from groundrl.errors import ConfigError
from groundrl.types import Sample, Task


@register("dataset", "mixture")
@dataclass(kw_only=True, slots=True)
class MixtureConfig(DatasetConfig):
    """`parts` by name; `weights`: their shares (a part without one has weight 1); `cycle`: number of samples
    in which the shares are exact; `seed` of the orders."""

    parts: dict[str, DatasetConfig] = field(default_factory=dict[str, DatasetConfig])
    weights: dict[str, float] = field(default_factory=dict[str, float])
    cycle: int = 100
    seed: int = 0

    def __post_init__(self) -> None:
        DatasetConfig.__post_init__(self)
        if self.train_size is not None:
            todo = "limit a part: dataset.parts.NAME.train_size"
            raise ConfigError("train_size", "a mixture has no end", got=self.train_size, todo=todo)
        if self.cycle < 1:
            raise ConfigError("cycle", "must be >= 1", got=self.cycle, todo="use e.g. 100")
        for name, weight in self.weights.items():
            if name not in self.parts:
                known = ", ".join(self.parts) or "none"
                raise ConfigError(f"weights.{name}", "is no part", got=weight, todo=f"parts: {known}")
            if not 0 < weight < math.inf:
                todo = "leave the part out instead"
                raise ConfigError(f"weights.{name}", "must be > 0", got=weight, todo=todo)

    def build(self, split: Split) -> Mixture:
        if not self.parts:
            raise ConfigError("parts", "is empty", todo="add one: +dataset@dataset.parts.NAME=OPTION")
        sources: dict[str, SampleSource] = {}
        for name, config in self.parts.items():
            try:
                sources[name] = config.build(split)
            except ConfigError as error:
                raise error if error.key.startswith("dataset.") else error.at(f"parts.{name}") from None
        weights = {name: self.weights.get(name, 1.0) for name in self.parts}
        counts = shares(weights, self.cycle)
        if empty := [name for name, count in counts.items() if not count]:
            problem = f"gets no sample in a cycle of {self.cycle}"
            raise ConfigError(f"weights.{empty[0]}", problem, todo="raise the weight or dataset.cycle")
        return Mixture(sources, counts, seed=self.seed, finite=split is Split.HELDOUT)


def shares(weights: Mapping[str, float], total: int) -> dict[str, int]:
    """`total` split in proportion to `weights`, by largest remainder (ties: in the order given)."""
    whole = math.fsum(weights.values())
    exact = {name: total * weight / whole for name, weight in weights.items()}
    counts = {name: math.floor(value) for name, value in exact.items()}
    by_rest = sorted(exact, key=lambda name: counts[name] - exact[name])
    for name in by_rest[: total - sum(counts.values())]:
        counts[name] += 1
    return counts


class Mixture:
    """Samples of the parts, interleaved. Training never ends; held-out samples are each given once."""

    def __init__(
        self, sources: Mapping[str, SampleSource], counts: Mapping[str, int], *, seed: int, finite: bool
    ) -> None:
        self.sources = dict(sources)
        self.counts = dict(counts)
        self.seed = seed
        names = [name for name, count in counts.items() for _ in range(count)]
        order = np.random.default_rng(seed).permutation(len(names))
        self._cycle = [names[place] for place in order]
        seen: dict[str, int] = dict.fromkeys(counts, 0)
        self._turn: list[int] = []
        for name in self._cycle:
            self._turn.append(seen[name])
            seen[name] += 1
        cycles = [source.size // counts[name] for name, source in sources.items() if source.size is not None]
        self.size: int | None = min(cycles) * len(names) if finite and cycles else None
        if self.size == 0:
            raise ConfigError("cycle", "a part is smaller than its share of one cycle", todo="lower it")
        self._orders: dict[tuple[str, tuple[int, int]], NDArray[np.int64]] = {}

    def tasks(self) -> frozenset[Task]:
        return frozenset(task for source in self.sources.values() for task in source.tasks())

    def fingerprint(self) -> str:
        parts = [(name, source.fingerprint(), self.counts[name]) for name, source in self.sources.items()]
        return hashlib.sha256(repr((parts, self.seed)).encode()).hexdigest()[:16]

    def image_ids(self) -> frozenset[str] | None:
        """The images of the parts that name theirs (overlap.py)."""
        named = [ids for source in self.sources.values() if (ids := image_ids(source)) is not None]
        return frozenset().union(*named) if named else None

    def sample(self, index: int) -> Sample:
        """Sample `index` (>= 0); the same index is always the same sample."""
        stretch, index = divmod(index, STRETCH)
        cycle, place = divmod(index, len(self._cycle))
        name = self._cycle[place]
        number = cycle * self.counts[name] + self._turn[place]
        source = self.sources[name]
        if source.size is None:
            return source.sample(stretch * STRETCH + number)
        epoch, step = divmod(number, source.size)
        return source.sample(int(self._order(name, (epoch, stretch), source.size)[step]))

    def _order(self, name: str, when: tuple[int, int], size: int) -> NDArray[np.int64]:
        """The permutation of a part in (epoch, stretch); the newest two epochs of each are kept."""
        key = (name, when)
        if key not in self._orders:
            self._orders.pop((name, (when[0] - 2, when[1])), None)
            part = int.from_bytes(hashlib.sha256(name.encode()).digest()[:4], "big")
            epoch, stretch = when
            seeds = [self.seed, part, epoch, *([stretch] if stretch else [])]
            self._orders[key] = np.random.default_rng(seeds).permutation(size)
        return self._orders[key]
