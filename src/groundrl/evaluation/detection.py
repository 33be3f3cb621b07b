"""Detection metrics over a set of scenes: COCO AP with all scores 1, and greedy precision and recall.

AP uses the matching and accumulation of the reward (`rewards.detection`) and equals that of `coco`, which
cannot be resampled cheaply. A category is a normalised label
that some scene of the set holds as truth; a prediction of such a category is a false positive in every scene
without it, and predictions of other categories are not scored (as in COCO).

Greedy precision and recall are named but not defined in VLM-R1. Our definition: pairs of the same label (and
image) are matched one to one, largest IoU first, while IoU >= 0.5; precision is matches over all claimed
items, those the parser refused included, and recall is matches over true boxes, both over the whole set.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from groundrl.evaluation.bootstrap import Indices
from groundrl.geometry.boxes import Float64, as_array, pairwise_iou
from groundrl.geometry.labels import normalise_label
from groundrl.geometry.matching import greedy_match
from groundrl.rewards.detection import (
    COCO_THRESHOLDS,
    CategoryMatch,
    Scene,
    SizeRange,
    accumulate,
    match_scene,
)
from groundrl.types import LabeledBox

GREEDY_IOU = 0.5
COCO_SIZES: dict[str, SizeRange] = {
    "ap": (0.0, float("inf")),
    "ap_small": (0.0, 32.0**2),
    "ap_medium": (32.0**2, 96.0**2),
    "ap_large": (96.0**2, float("inf")),
}
"""Metric name -> areas of the boxes it is about, in square pixels (COCO, detection evaluation)."""


def greedy_matches(scene: Scene, *, threshold: float = GREEDY_IOU) -> int:
    """Number of one-to-one pairs of equal label and image with IoU >= `threshold`, largest IoU first."""
    numbers: dict[tuple[str, int], int] = {}

    def keys(boxes: Sequence[LabeledBox]) -> Indices:
        pairs = ((normalise_label(box.label), box.image) for box in boxes)
        return np.array([numbers.setdefault(pair, len(numbers)) for pair in pairs], dtype=np.int64)

    iou = pairwise_iou(
        as_array(box.xyxy for box in scene.predictions), as_array(box.xyxy for box in scene.truths)
    )
    same = keys(scene.predictions)[:, None] == keys(scene.truths)
    return len(greedy_match(np.where(same, iou, 0.0), threshold=threshold))


def _ranges(starts: Indices, widths: Indices) -> Indices:
    """The ranges [start, start + width) one after the other."""
    ends = np.cumsum(widths)
    return np.repeat(starts - (ends - widths), widths) + np.arange(ends[-1] if len(ends) else 0)


def _running(table: NDArray[Any]) -> NDArray[np.int32]:
    """Sums of the columns before each column of [R, N], and of all: int32 [R, N + 1]."""
    sums = np.zeros((len(table), table.shape[1] + 1), dtype=np.int32)
    np.cumsum(table, axis=1, out=sums[:, 1:])
    return sums


class DetectionSet:
    """Scenes matched once, whose metrics can be computed over any multiset of them.

    `indices` of the methods name scenes, int64, repeats allowed; None means each once, in order. AP ranks
    scenes in the order of `indices`. Bootstrap draws must not be sorted: repeats that stand side by side make
    long runs of hits and misses, whose peaks lift interpolated precision above what the full set gives.
    """

    def __init__(
        self,
        scenes: Sequence[Scene],
        *,
        thresholds: Sequence[float] = COCO_THRESHOLDS,
        sizes: Sequence[SizeRange] | None = None,
    ) -> None:
        """thresholds [T] and sizes [A]: the IoU thresholds and the ranges of box areas, in order, of
        `average_precision`; sizes None is one range of all areas."""
        self._size = len(scenes)
        self._by_size = sizes is not None
        self._shape = (len(sizes) if sizes is not None else 1, len(thresholds))
        blocks: dict[str, list[tuple[int, CategoryMatch]]] = {}
        for index, scene in enumerate(scenes):
            for label, match in match_scene(scene, thresholds, sizes).items():
                blocks.setdefault(label, []).append((index, match))
        true_labels = {normalise_label(box.label) for scene in scenes for box in scene.truths}
        kept = [block for label, block in blocks.items() if label in true_labels]
        flat = [(kind, index, match) for kind, block in enumerate(kept) for index, match in block]
        flat.sort(key=lambda entry: entry[1])  # one block per scene and category, scene by scene
        self._num_categories = len(kept)
        self._category = np.array([kind for kind, _, _ in flat], dtype=np.int64)
        self._blocks = np.bincount([index for _, index, _ in flat], minlength=self._size)  # of each scene
        counts = [match.num_truths for _, _, match in flat]
        self._truths = np.array(counts, dtype=np.int64).reshape(-1, self._shape[0])
        self._index_hits([match for _, _, match in flat])
        self._counts = np.array(
            [
                (greedy_matches(scene), len(scene.predictions) + scene.rejected, len(scene.truths))
                for scene in scenes
            ],
            dtype=np.int64,
        ).reshape(-1, 3)

    def _index_hits(self, matches: Sequence[CategoryMatch]) -> None:
        """Keep the predictions that are a hit in some row, and how many stand before them in their block.

        Rows are size ranges times thresholds. All others only push ranks down: a block's total says that.
        """
        empty = np.zeros((self._shape[0] * self._shape[1], 0), dtype=np.bool_)
        hits = np.concatenate([empty, *(match.hits for match in matches)], axis=1)
        counted = np.ones_like(hits)
        if self._by_size:
            ignored = [match.ignored for match in matches if match.ignored is not None]
            counted = ~np.concatenate([empty, *ignored], axis=1)
        width = np.array([match.hits.shape[1] for match in matches], dtype=np.int64)
        end = np.cumsum(width)
        before = _running(counted)
        self._counted = before[:, end] - before[:, end - width]  # [R, blocks]
        hit = hits.any(axis=0)
        owner = np.repeat(np.arange(len(matches)), width)[hit]
        self._hits = hits[:, hit]
        self._rank = before[:, 1:][:, hit] - before[:, (end - width)[owner]]
        self._width = np.bincount(owner, minlength=len(matches))
        self._start = np.cumsum(self._width) - self._width

    def average_precision(self, indices: Indices | None = None) -> Float64:
        """AP per size range and threshold [A, T] ([T] without `sizes`), averaged over the categories that
        have true boxes in the range; nan where there are none."""
        scenes = np.arange(self._size) if indices is None else indices
        block = _ranges(np.cumsum(self._blocks)[scenes] - self._blocks[scenes], self._blocks[scenes])
        block = block[np.argsort(self._category[block], kind="stable")]
        category, width = self._category[block], self._width[block]
        num_truths = np.zeros((self._num_categories, self._shape[0]), dtype=np.int64)
        np.add.at(num_truths, category, self._truths[block])
        columns = _ranges(self._start[block], width)
        before = _running(self._counted[:, block])
        owner = np.repeat(np.arange(len(block)), width)
        first = np.searchsorted(category, category[owner])  # first block of the same category
        table = accumulate(
            self._hits[:, columns],
            category[owner],
            np.repeat(num_truths.T, self._shape[1], axis=0),
            rank=self._rank[:, columns] + before[:, owner] - before[:, first],
        )
        scored = np.isfinite(table)
        with np.errstate(invalid="ignore"):
            mean = np.where(scored, table, 0.0).sum(axis=1) / scored.sum(axis=1)
        return mean.reshape(self._shape) if self._by_size else mean

    def precision_recall(self, indices: Indices | None = None) -> tuple[float, float]:
        """Greedy precision and recall at IoU 0.5.

        Both are nan where nothing is true: an answer that claims nothing is right there, one that cannot be
        read is not, and these counts do not tell them apart. Precision is 0 where something is true and
        nothing is claimed.
        """
        counts = self._counts if indices is None else self._counts[indices]
        matches, claimed, truths = (int(count) for count in counts.sum(axis=0))
        if not truths:
            return float("nan"), float("nan")
        return (matches / claimed if claimed else 0.0), matches / truths


class CocoSet(DetectionSet):
    """A `DetectionSet` with COCO's thresholds and sizes, and its metrics by name."""

    def __init__(self, scenes: Sequence[Scene]) -> None:
        super().__init__(scenes, sizes=tuple(COCO_SIZES.values()))

    def metrics(self, indices: Indices | None = None) -> dict[str, float]:
        """gp50, gr50, ap, ap50, ap75, ap_small, ap_medium and ap_large; nan where there is no true box (of
        that size)."""
        precision, recall = self.precision_recall(indices)
        table = self.average_precision(indices)
        ap, *sizes = table.mean(axis=1).tolist()
        every = table[0]
        return {
            "gp50": precision,
            "gr50": recall,
            "ap": ap,
            "ap50": float(every[COCO_THRESHOLDS.index(0.5)]),
            "ap75": float(every[COCO_THRESHOLDS.index(0.75)]),
            **dict(zip(list(COCO_SIZES)[1:], sizes, strict=True)),
        }
