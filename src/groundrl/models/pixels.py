"""The picture that patches were made of, for engines that make their own patches."""

from __future__ import annotations

from typing import Any

import numpy as np
from PIL import Image

from groundrl.models.family import Family
from groundrl.types import PreparedImage


def picture_of(image: PreparedImage, image_processor: Any, family: Family) -> Image.Image:
    """The resized RGB picture, exactly: patching and normalising are undone, and a pixel was a whole number.
    Of tiles the picture as it was: their thumbnail was made of it.

    Its sides are multiples of patch_size * merge_size and its area lies within the pixel limits, so the
    same image processor makes the same patches of it without resizing a second time. Inverse of the patch
    order of Qwen2-VL: (time, row block, column block, row, column, channel, frame, y, x).
    """
    if image.pixels is not None:
        return Image.fromarray(image.pixels)
    times, rows, columns = image.grid_thw
    merge, patch = family.merge_size, family.patch_size
    frames = int(image_processor.temporal_patch_size)
    cut = image.patches.reshape(times, rows // merge, columns // merge, merge, merge, 3, frames, patch, patch)
    first = cut[0, ..., 0, :, :]  # a still picture repeats its frame
    laid = first.transpose(0, 2, 5, 1, 3, 6, 4).reshape(rows * patch, columns * patch, 3)
    mean, std = np.asarray(image_processor.image_mean), np.asarray(image_processor.image_std)
    values = (laid * std + mean) / float(image_processor.rescale_factor)
    return Image.fromarray(np.rint(values).clip(0, 255).astype(np.uint8))
