"""Conversions between coordinate spaces, with the sizes of the published mistakes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from groundrl.geometry.boxes import iou
from groundrl.geometry.frames import clip, from_original, to_original
from groundrl.types import CoordinateSpace, ImageFrame

RESIZED = ImageFrame(original=(1000, 500), processed=(980, 504))


def test_resized_pixels_use_the_actual_size_of_each_axis() -> None:
    box = to_original((98, 101, 196, 202), CoordinateSpace.PIXEL_RESIZED, RESIZED)
    assert box == (100.0, 101 * 500 / 504, 200.0, 202 * 500 / 504)
    assert iou(box, (100, 100, 200, 200)) > 0.99
    assert iou((98, 101, 196, 202), (100, 100, 200, 200)) < 0.95  # what skipping the conversion would give


def test_relative_thousand_is_exactly_the_edge() -> None:
    frame = ImageFrame(original=(641, 479), processed=(644, 476))
    assert to_original((500, 500, 1000, 1000), CoordinateSpace.REL1000, frame) == (320.5, 239.5, 641, 479)
    assert from_original((0, 0, 641, 479), CoordinateSpace.REL1000, frame) == (0, 0, 1000, 1000)


def test_original_pixels_are_left_alone() -> None:
    assert to_original((1, 2, 3.5, 4), CoordinateSpace.PIXEL_ORIGINAL, RESIZED) == (1, 2, 3.5, 4)


@pytest.mark.parametrize("space", list(CoordinateSpace))
@given(
    box=st.tuples(*[st.floats(-100, 3000, allow_subnormal=False)] * 4),
    original=st.tuples(st.integers(1, 4000), st.integers(1, 4000)),
    processed=st.tuples(st.integers(1, 4000), st.integers(1, 4000)),
)
def test_there_and_back(space, box, original, processed) -> None:
    frame = ImageFrame(original=original, processed=processed)
    assert to_original(from_original(box, space, frame), space, frame) == pytest.approx(box, rel=1e-12)


def test_clip() -> None:
    assert clip((-5, 10, 1200, 50), (640, 480)) == (0, 10, 640, 50)
    assert clip((700, 10, 900, 50), (640, 480)) == (640, 10, 640, 50)
    assert clip((1, 2, 3, 4), (640, 480)) == (1, 2, 3, 4)
