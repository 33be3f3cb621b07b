"""Boxes of 500 random images: resized, written as an answer, parsed, and back in original pixels."""

from __future__ import annotations

import numpy as np
import pytest
from PIL import Image

from groundrl.models.processor import Processor
from groundrl.parsing.answer import ParseStatus, parse_rollout
from groundrl.rollout.written import written_rollout
from groundrl.training.truth import truth_text
from groundrl.types import CoordinateSpace, ImageFrame, LabeledBox, Sample, Task, Truth

IMAGES = 500


@pytest.fixture(scope="module")
def frames(loaded_policy) -> list[ImageFrame]:
    """Sizes from 20 to 1500 pixels a side, up to 10 to 1, as the processor made them."""
    rng = np.random.default_rng(7)
    processor: Processor = loaded_policy.processor
    made: list[ImageFrame] = []
    for _ in range(IMAGES):
        width = int(rng.integers(20, 1500))
        height = int(np.clip(width * np.exp(rng.uniform(-2.3, 2.3)), 20, 1500))
        made.append(processor.prepare(Image.new("RGB", (width, height))).frame)
    return made


@pytest.mark.parametrize("space", list(CoordinateSpace))
def test_a_box_comes_back_within_half_a_unit_of_the_models_space(
    space: CoordinateSpace, frames: list[ImageFrame]
) -> None:
    rng = np.random.default_rng(11)
    resized = 0
    for number, frame in enumerate(frames):
        width, height = frame.original
        units = {
            CoordinateSpace.PIXEL_ORIGINAL: frame.original,
            CoordinateSpace.PIXEL_RESIZED: frame.processed,
            CoordinateSpace.REL1000: (1000, 1000),
        }[space]
        unit = np.tile(np.array(frame.original) / np.array(units), 2)
        resized += frame.original != frame.processed
        x, y = np.sort(rng.uniform(0, width, 2)), np.sort(rng.uniform(0, height, 2))
        if x[1] - x[0] < 2 * unit[0] or y[1] - y[0] < 2 * unit[1]:
            continue  # would round to nothing
        box = LabeledBox(xyxy=(x[0], y[0], x[1], y[1]), label="a thing")
        sample = Sample(id=str(number), task=Task.ovd, images=(), truth=Truth(boxes=(box,)))
        text = truth_text(sample, (frame,), space)
        answer = parse_rollout(written_rollout(str(number), text, [frame], space=space), sample)
        assert answer.status is ParseStatus.OK
        error = np.abs(np.array(answer.boxes[0].xyxy) - box.xyxy)
        assert (error <= 0.5 * unit + 1e-9).all(), (frame, box, answer.boxes)
    assert resized > 0.9 * IMAGES  # the sizes do differ, or nothing would be tested
