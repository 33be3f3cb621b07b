"""Which annotated boxes of an image a COCO subset keeps.

A filter keeps or drops a category's boxes in an image together, so the truth of a kept category is all of
its boxes. Areas are those of boxes, not of masks: width x height over that of the image.

Subsets of VLM-R1 (blogs of 2025-03-20 and 2025-03-24): COCO_filtered, also called COCO_pos_1, is `filtered`,
COCO_pos_2 and COCO_pos_3 are as named. No code of them is public, so what the text leaves open is a setting.
`small` and `regular` follow table 3.1 of the second (small objects against single-box data).
"""

from __future__ import annotations

from collections import Counter
from enum import StrEnum
from typing import NamedTuple

from groundrl.types import XYXY, Size


class Instance(NamedTuple):
    """One annotated object; `xyxy` in pixels of the image."""

    id: str
    category: str
    xyxy: XYXY


Instances = tuple[Instance, ...]


class Subset(StrEnum):
    """What is kept.

    all           everything
    filtered      categories with at most `max_boxes` boxes in the image
    pos_2         images in which every category has exactly one box
    pos_3         images with at most `max_boxes` boxes
    small         categories all of whose boxes in the image are small
    regular       images with exactly one box, which is not small
    single_class  everything, one sample for every category of an image
    """

    all = "all"
    filtered = "filtered"
    pos_2 = "pos_2"
    pos_3 = "pos_3"
    small = "small"
    regular = "regular"
    single_class = "single_class"


def few_per_category(instances: Instances, most: int) -> Instances:
    """Those of categories with at most `most` boxes."""
    counts = Counter(one.category for one in instances)
    return tuple(one for one in instances if counts[one.category] <= most)


def single_per_category(instances: Instances) -> Instances:
    """Those of categories with exactly one box."""
    return few_per_category(instances, 1)


def is_small(instance: Instance, size: Size, fraction: float) -> bool:
    """Whether a box covers less than `fraction` of its image of `size` (width, height)."""
    x1, y1, x2, y2 = instance.xyxy
    return (x2 - x1) * (y2 - y1) < fraction * size[0] * size[1]


def small_categories(instances: Instances, size: Size, fraction: float) -> Instances:
    """Those of categories that have no box of `fraction` of the image or more."""
    large = {one.category for one in instances if not is_small(one, size, fraction)}
    return tuple(one for one in instances if one.category not in large)


def select(
    subset: Subset, instances: Instances, size: Size, *, max_boxes: int, keep_boundary: bool, fraction: float
) -> Instances:
    """What `subset` keeps of an image's boxes, in their order; nothing when it drops the image.

    `keep_boundary`: whether exactly `max_boxes` boxes are still few. The sources state both "fewer than 10"
    and "more than 10 are removed".
    """
    most = max_boxes if keep_boundary else max_boxes - 1
    match subset:
        case Subset.filtered:
            return few_per_category(instances, most)
        case Subset.pos_2:
            return instances if single_per_category(instances) == instances else ()
        case Subset.pos_3:
            return instances if len(instances) <= most else ()
        case Subset.small:
            return small_categories(instances, size, fraction)
        case Subset.regular:
            alone = len(instances) == 1 and not is_small(instances[0], size, fraction)
            return instances if alone else ()
        case Subset.all | Subset.single_class:
            return instances
