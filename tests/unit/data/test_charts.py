"""Charts and tables: what is asked can be seen, to the pixel, and the splits share no picture."""

from __future__ import annotations

import re
from collections import Counter

import numpy as np
import pytest

from groundrl.config.compose import compose_run
from groundrl.data.base import Split
from groundrl.data.chart import ChartConfig
from groundrl.data.scene import COLOURS
from groundrl.data.table import DOT, TableConfig
from groundrl.errors import ConfigError, DataError
from groundrl.types import Task

WORLDS = (ChartConfig, TableConfig)


def colour_count(pixels: np.ndarray, colour: str) -> int:
    return int((pixels == COLOURS[colour]).all(axis=-1).sum())


def test_bars_fill_their_boxes_and_end_on_lines() -> None:
    charts = ChartConfig(noise=0).build(Split.TRAIN)
    lying = 0
    for index in range(60):
        sample, bars = charts.draw(index)
        pixels = np.asarray(sample.images[0])
        upright = all(bar.xyxy[3] == 98 for bar in bars)
        lying += not upright
        for bar in bars:
            x1, y1, x2, y2 = (int(v) for v in bar.xyxy)
            assert (pixels[y1:y2, x1:x2] == COLOURS[bar.colour]).all()
            assert colour_count(pixels, bar.colour) == (x2 - x1) * (y2 - y1)
            assert (y2 - y1 if upright else x2 - x1) == 14 * bar.value
    assert 15 < lying < 45


def answer(kind: str, value: dict[str, int], named: list[str]) -> str:
    if kind in ("longest", "shortest"):
        return (max if kind == "longest" else min)(value, key=lambda colour: value[colour])
    if kind == "count":
        return str(len(value))
    return str(value[named[0]] - (value[named[1]] if kind == "longer" else 0))


def test_answers_about_charts_are_right() -> None:
    charts = ChartConfig(questions={"count": 1, "value": 1, "longest": 1, "shortest": 1, "longer": 1}).build(
        Split.TRAIN
    )
    seen = Counter[str]()
    for index in range(300):
        sample, bars = charts.draw(index)
        value = {bar.colour: bar.value for bar in bars}
        kind = sample.source.partition("/")[2]
        seen[kind] += 1
        named = re.findall("|".join(COLOURS), sample.question)
        right = answer(kind, value, named)
        assert sample.truth.answer == right, sample.question
        assert sample.task is Task.text
        if kind in ("longest", "shortest"):
            assert list(value.values()).count(value[right]) == 1
        if kind == "longer":
            assert int(right) >= 0
    assert min(seen.values()) > 30


def test_cells_hold_their_colour_and_their_dots() -> None:
    tables = TableConfig(noise=0).build(Split.TRAIN)
    for index in range(40):
        sample, cells = tables.draw(index)
        pixels = np.asarray(sample.images[0])
        for cell in cells:
            x1, y1, x2, y2 = (int(v) for v in cell.xyxy)
            inner = pixels[y1 + 1 : y2 - 1, x1 + 1 : x2 - 1]
            ink = int((inner != COLOURS[cell.colour]).any(axis=-1).sum())
            assert abs(ink - cell.dots * np.pi * (DOT + 0.5) ** 2) <= 6 * cell.dots
        at = {(cell.row, cell.column): cell for cell in cells}
        kind, question = sample.source.partition("/")[2], sample.question
        place = tuple(int(v) for v in re.findall(r"\d", question))
        colours = [cell.colour for cell in cells]
        if kind == "dots":
            assert sample.truth.answer == str(at[place].dots)  # pyright: ignore[reportArgumentType]
        elif kind == "colour":
            assert sample.truth.answer == at[place].colour  # pyright: ignore[reportArgumentType]
        else:
            (asked,) = re.findall("|".join(COLOURS), question)
            assert sample.truth.answer == str(colours.count(asked))
            assert len(sample.truth.evidence) == colours.count(asked)


@pytest.mark.parametrize("world", WORLDS)
def test_a_sample_is_a_function_of_its_place(world: type[ChartConfig] | type[TableConfig]) -> None:
    first, again = world().build(Split.TRAIN), world().build(Split.TRAIN)
    assert first.sample(7).images[0].tobytes() == again.sample(7).images[0].tobytes()
    assert first.sample(7).question == again.sample(7).question
    other = world(seed=1).build(Split.TRAIN)
    assert [other.sample(n).question for n in range(20)] != [first.sample(n).question for n in range(20)]
    assert first.fingerprint() != other.fingerprint() != world().build(Split.HELDOUT).fingerprint()
    with pytest.raises(DataError, match="index 5 is outside the pool of 5"):
        world(train_size=5).build(Split.TRAIN).sample(5)


@pytest.mark.parametrize("world", WORLDS)
def test_no_picture_is_in_both_splits_whatever_the_seed(world: type[ChartConfig] | type[TableConfig]) -> None:
    drawn = {
        split: {
            repr(world(seed=seed, noise=0).build(split).draw(n)[1]) for seed in (0, 1) for n in range(300)
        }
        for split in Split
    }
    assert not drawn[Split.TRAIN] & drawn[Split.HELDOUT]


@pytest.mark.parametrize(
    ("world", "settings", "key"),
    [
        (ChartConfig, {"bars": [0, 3]}, "bars"),
        (ChartConfig, {"bars": [2, 7]}, "bars"),
        (ChartConfig, {"image_size": 30}, "image_size"),
        (ChartConfig, {"noise": -1}, "noise"),
        (ChartConfig, {"questions": {"sum": 1}}, "questions.sum"),
        (ChartConfig, {"questions": {"count": 0}}, "questions"),
        (ChartConfig, {"questions": {"count": -1}}, "questions.count"),
        (TableConfig, {"rows": [2, 5]}, "rows"),
        (TableConfig, {"columns": [3, 2]}, "columns"),
        (TableConfig, {"questions": {"count": 1}}, "questions.count"),
    ],
)
def test_settings_that_cannot_work(world: type, settings: dict[str, object], key: str) -> None:
    with pytest.raises(ConfigError) as caught:
        world(**settings)
    assert caught.value.key == key
    assert caught.value.todo


def test_a_kind_that_a_picture_never_has_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    from groundrl.data import drawn

    monkeypatch.setattr(drawn, "MAX_ATTEMPTS", 20)
    lonely = ChartConfig(bars=[1, 1], questions={"longer": 1.0}).build(Split.TRAIN)
    with pytest.raises(DataError, match=r"no picture fits the settings in 20 tries; allow another"):
        lonely.sample(0)


def test_runs_read_them() -> None:
    for name in ("charts", "tables"):
        config = compose_run(["reward=answer", "task=text", f"dataset={name}"])
        source = config.dataset.build(Split.HELDOUT)
        assert source.tasks() == {Task.text}
        assert source.sample(0).question
