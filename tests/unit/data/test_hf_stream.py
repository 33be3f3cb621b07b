"""Streams of `dataset=hf`: the same rows as the table, forward, back, resumed, broken and ended."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.unit.data.hf_world import parquet, questions, seen

from groundrl.data.base import Split
from groundrl.data.hf import HfConfig
from groundrl.data.hf_stream import PEEK, STRETCH, HfStream
from groundrl.data.rows import OnError
from groundrl.data.sampler import Sampler
from groundrl.errors import DataError

TRAIN, HELDOUT = Split.TRAIN, Split.HELDOUT
pytestmark = pytest.mark.usefixtures("hf_offline")


@pytest.mark.parametrize("heldout_split", [None, "test"])
@pytest.mark.parametrize("on_error", list(OnError))
def test_a_stream_is_the_table_row_by_row(
    tmp_path: Path, heldout_split: str | None, on_error: OnError
) -> None:
    wrong = {"r4": "many", "r21": "few"} if on_error is OnError.skip else {}
    path = parquet(tmp_path, train=questions(30, **wrong), test=questions(5))
    config = HfConfig(path=path, heldout_split=heldout_split, heldout_every=4, on_error=on_error)
    for split in Split:
        table, stream = config.build(split), replace(config, streaming=True).build(split)
        assert stream.size is None
        assert table.size
        expected = [seen(table.sample(n)) for n in range(table.size)]
        assert [seen(stream.sample(n)) for n in range(table.size)] == expected
        # back, again, ahead, and from the middle in another process
        order = [table.size // 2, table.size // 2, 0, table.size - 1, 1, 2]
        assert [seen(stream.sample(n)) for n in order] == [expected[n] for n in order]
        fresh = replace(config, streaming=True).build(split)
        assert [seen(fresh.sample(n)) for n in (table.size - 2, table.size - 1)] == expected[-2:]
        assert fresh.fingerprint() == stream.fingerprint() != table.fingerprint()


def test_a_stream_begins_again_for_training_and_ends_for_evaluation(tmp_path: Path) -> None:
    path = parquet(tmp_path, train=questions(20), test=questions(3))
    config = HfConfig(path=path, heldout_split="test", streaming=True)
    read_on, jumped = config.build(TRAIN), config.build(TRAIN)
    assert [read_on.sample(n).question for n in range(18, 23)] == ["q18", "q19", "q0", "q1", "q2"]
    assert jumped.sample(67).question == "q7"  # 67 = 3 x 20 + 7, the length being unknown
    heldout = config.build(HELDOUT)
    assert heldout.sample(2).question == "q2"
    with pytest.raises(DataError, match=r"set:test: .*only 3 held-out rows, and row 4.*eval\.samples"):
        heldout.sample(3)
    assert heldout.sample(0).question == "q0"


class Counted:
    """A stream that says how many records were taken from it."""

    def __init__(self, inner: Any) -> None:
        self.inner, self.features, self.taken = inner, inner.features, 0

    def skip(self, count: int) -> Any:
        return self._counting(self.inner.skip(count))

    def __iter__(self) -> Any:
        return self._counting(self.inner)

    def _counting(self, inner: Any) -> Any:
        for value in inner:
            self.taken += 1
            yield value


def test_seeds_do_not_skip_millions_of_rows_and_resuming_goes_on(tmp_path: Path) -> None:
    config = HfConfig(path=parquet(tmp_path, train=questions(40)), streaming=True, heldout_split="train")
    for seed in (0, 3):
        source = config.build(TRAIN)
        assert isinstance(source, HfStream)
        counted = Counted(source.opened.table)
        stream = HfStream(replace(source.opened, table=counted))
        assert counted.taken == PEEK
        sampler = Sampler(stream, seed)
        assert [one.question for one in sampler.next(3)] == ["q0", "q1", "q2"]
        assert counted.taken == PEEK + 3
        resumed = Sampler(config.build(TRAIN), seed)
        resumed.load(sampler.state())
        assert [one.question for one in resumed.next(2)] == ["q3", "q4"]
    assert Sampler(config.build(TRAIN), 3)._index(0) == 3 * STRETCH


def test_a_wrong_row_far_inside_a_stream_keeps_its_place(tmp_path: Path) -> None:
    path = parquet(tmp_path, train=questions(30, r20="many"))
    stream = HfConfig(path=path, streaming=True, heldout_split="train").build(TRAIN)
    assert stream.sample(19).question == "q19"
    for _ in range(2):
        with pytest.raises(DataError, match=r"row 21: the answer 'many'"):
            stream.sample(20)
    assert [stream.sample(n).question for n in (21, 19, 22)] == ["q21", "q19", "q22"]


class Breaking:
    """A stream that breaks once, after `after` records."""

    def __init__(self, inner: Any, after: int) -> None:
        self.inner, self.features, self.after = inner, inner.features, after

    def skip(self, count: int) -> Any:
        return iter(self.inner.skip(count))

    def __iter__(self) -> Any:
        for number, value in enumerate(self.inner):
            if number == self.after:
                raise ConnectionError("timed out")
            yield value


def test_a_stream_that_breaks_names_the_row_and_can_be_read_on(tmp_path: Path) -> None:
    source = HfConfig(path=parquet(tmp_path, train=questions(40)), streaming=True).build(TRAIN)
    assert isinstance(source, HfStream)
    whole = [source.sample(n).question for n in range(30)]
    stream = HfStream(replace(source.opened, table=Breaking(source.opened.table, 25)))
    got: list[str] = []

    def read_on() -> None:
        for number in range(len(got), 30):
            got.append(stream.sample(number).question)

    with pytest.raises(DataError, match=r"set:train, row 26: the stream broke \(timed out\)"):
        read_on()
    assert 20 <= len(got) <= 25
    got += [stream.sample(number).question for number in range(len(got), 30)]
    assert got == whole


def test_rows_that_are_skipped_count_once_however_often_they_are_read(tmp_path: Path) -> None:
    path = parquet(tmp_path, train=questions(30, r2="many", r25="few"))
    config = HfConfig(path=path, streaming=True, heldout_split="train", on_error=OnError.skip)
    stream = config.build(TRAIN)
    assert isinstance(stream, HfStream)
    assert stream.skips.count == 1  # only the first rows were read
    # 28 rows are left: q28 is row 26 of them, and row 28 + 2 is q3 again
    assert [stream.sample(n).question for n in (26, 0, 26, 30)] == ["q28", "q0", "q28", "q3"]
    assert stream.skips.count == 2


def test_the_fingerprint_of_a_stream_tells_what_may_differ_further_on(tmp_path: Path) -> None:
    path = parquet(tmp_path, train=questions(20))
    first, second = (HfConfig(path=path, streaming=True, heldout_every=n).build(TRAIN) for n in (997, 998))
    assert first.sample(0).id == second.sample(0).id
    assert first.fingerprint() != second.fingerprint()
