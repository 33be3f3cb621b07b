"""The order of samples: the same whoever takes them, for any number of processes, wherever it stopped."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from groundrl.data.base import STRETCH
from groundrl.data.mixture import Mixture
from groundrl.data.sampler import Sampler
from groundrl.errors import CheckpointError
from groundrl.types import Sample, Task, Truth


class Numbers:
    """Samples that are their indices."""

    def __init__(self, size: int | None, name: str = "") -> None:
        self.size, self.name = size, name

    def sample(self, index: int) -> Sample:
        assert self.size is None or 0 <= index < self.size
        return Sample(id=f"{self.name}{index}", task=Task.rec, images=(), truth=Truth())

    def tasks(self) -> frozenset[Task]:
        return frozenset({Task.rec})

    def fingerprint(self) -> str:
        return f"{self.name} {self.size}"


def ids(sampler: Sampler, count: int) -> list[str]:
    return [sample.id for sample in sampler.next(count)]


@settings(max_examples=60, deadline=None)
@given(
    size=st.integers(1, 40),
    seed=st.integers(0, 5),
    worlds=st.lists(st.tuples(st.integers(1, 5), st.integers(1, 7)), min_size=1, max_size=5),
)
def test_any_number_of_processes_takes_what_one_would(
    size: int, seed: int, worlds: list[tuple[int, int]]
) -> None:
    """Each pair of (processes, samples a process) is one global step, resumed from the step before."""
    alone = Sampler(Numbers(size), seed)
    state = alone.state()
    seen: Counter[str] = Counter()
    for world, count in worlds:
        ranks = [Sampler(Numbers(size), seed, rank=rank, world_size=world) for rank in range(world)]
        for sampler in ranks:
            sampler.load(state)
        taken = [name for sampler in ranks for name in ids(sampler, count)]
        assert taken == ids(alone, world * count)
        assert all(sampler.state() == alone.state() for sampler in ranks)
        state = alone.state()
        seen.update(taken)
    assert max(seen.values()) - min(seen[str(index)] for index in range(size)) <= 1  # epochs are whole


def test_a_batch_across_the_end_of_an_epoch_is_split_without_overlap() -> None:
    """Seven samples, two processes of two: the second batch takes the last three and one of the new order."""
    ranks = [Sampler(Numbers(7), 0, rank=rank, world_size=2) for rank in range(2)]
    first = [name for sampler in ranks for name in ids(sampler, 2)]
    second = [name for sampler in ranks for name in ids(sampler, 2)]
    assert len({*first, *second[:3]}) == 7


def test_the_shares_of_a_mixture_hold_across_processes() -> None:
    parts = {"a": Numbers(None, "a"), "b": Numbers(30, "b")}
    mixture = Mixture(parts, {"a": 3, "b": 1}, seed=0, finite=False)
    ranks = [Sampler(mixture, 0, rank=rank, world_size=2) for rank in range(2)]
    for _ in range(5):
        names = [name for sampler in ranks for name in ids(sampler, 4)]
        assert Counter(name[0] for name in names) == {"a": 6, "b": 2}


def test_seeds_of_an_endless_source_do_not_meet() -> None:
    names = [ids(Sampler(Numbers(None), seed), 3) for seed in (0, 1)]
    assert names == [["0", "1", "2"], [str(STRETCH + n) for n in range(3)]]


@pytest.mark.parametrize("other", [Sampler(Numbers(8), 0), Sampler(Numbers(9), 1)])
def test_the_position_of_other_data_is_refused(other: Sampler) -> None:
    with pytest.raises(CheckpointError, match="data set or seed is not this run's"):
        other.load(Sampler(Numbers(9), 0).state())
