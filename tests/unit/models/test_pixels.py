"""The picture that patches were made of comes back exactly."""

from __future__ import annotations

import numpy as np
import pytest
from PIL import Image
from tests.tiny import picture

from groundrl.models.pixels import picture_of


@pytest.mark.parametrize("size", [(112, 112), (84, 140), (140, 84), (300, 200), (57, 99), (28, 1400)])
def test_the_same_patches_are_made_of_it_without_a_second_resize(tiny_policy, size) -> None:
    processor = tiny_policy.processor
    first = processor.prepare(picture(size, 3))
    back = picture_of(first, processor.image_processor, processor.family)
    assert back.size == first.frame.processed
    again = processor.prepare(back)
    assert again.grid_thw == first.grid_thw
    np.testing.assert_array_equal(again.patches, first.patches)


def test_every_byte_value_survives_where_it_was(tiny_policy) -> None:
    """A picture that needs no resizing: each of the 256 values in each channel, in another order."""
    rng = np.random.default_rng(0)
    planes = [rng.permutation(np.arange(112 * 84) % 256).reshape(84, 112) for _ in range(3)]
    pixels = np.stack(planes, axis=-1).astype(np.uint8)
    processor = tiny_policy.processor
    prepared = processor.prepare(Image.fromarray(pixels))
    back = picture_of(prepared, processor.image_processor, processor.family)
    np.testing.assert_array_equal(np.asarray(back), pixels)
