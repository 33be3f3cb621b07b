"""Which samples come next: a deterministic order with a position that fits in a checkpoint."""

from __future__ import annotations

from typing import Any

import numpy as np

from groundrl.data.base import STRETCH, SampleSource
from groundrl.errors import CheckpointError
from groundrl.types import Sample


class Sampler:
    """Walks a source: in order when it never ends, else in a fresh seeded permutation each epoch.

    Of `world_size` processes with the same source and seed, process `rank` takes the rank-th block of every
    global batch: the blocks side by side are what one process alone would have taken. The state is the
    position in the global order, so a run can go on with another number of processes.
    """

    def __init__(self, source: SampleSource, seed: int, *, rank: int = 0, world_size: int = 1) -> None:
        assert 0 <= rank < world_size
        self.source = source
        self.seed = seed
        self.rank = rank
        self.world_size = world_size
        self.position = 0
        self._epoch = -1
        self._order = np.zeros(0, dtype=np.int64)

    def next(self, count: int) -> list[Sample]:
        """This process's `count` samples of the next count * world_size. A batch that holds the end of one
        epoch and the beginning of the next can hold a sample twice."""
        first = self.position + self.rank * count
        samples = [self.source.sample(self._index(place)) for place in range(first, first + count)]
        self.position += count * self.world_size
        return samples

    def _index(self, position: int) -> int:
        if self.source.size is None:
            # runs with other seeds see other stretches of the endless stream
            return self.seed * STRETCH + position
        epoch, place = divmod(position, self.source.size)
        if epoch != self._epoch:
            self._epoch = epoch
            self._order = np.random.default_rng([self.seed, epoch]).permutation(self.source.size)
        return int(self._order[place])

    def state(self) -> dict[str, Any]:
        """Equal in all processes."""
        return {"position": self.position, "seed": self.seed, "fingerprint": self.source.fingerprint()}

    def load(self, state: dict[str, Any]) -> None:
        """Go on where a checkpoint stopped; refuses the position of other data."""
        if state["fingerprint"] != self.source.fingerprint() or state["seed"] != self.seed:
            raise CheckpointError(
                "the checkpoint's data set or seed is not this run's; resume with the run's own settings"
            )
        self.position = int(state["position"])
