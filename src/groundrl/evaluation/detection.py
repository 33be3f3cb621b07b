"""Detection metrics over a set of scenes: COCO AP with all scores 1, and greedy precision and recall.

AP uses the matching and accumulation of the reward (`rewards.detection`). A category is a normalised label
that some scene of the set holds as truth; a prediction of such a category is a false positive in every scene
without it, and predictions of other categories are not scored (as in COCO).

Greedy precision and recall are named but not defined in VLM-R1. Our definition: pairs of the same label (and
image) are matched one to one, largest IoU first, while IoU >= 0.5; precision is matches over all claimed
items, those the parser refused included, and recall is matches over true boxes, both over the whole set.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from groundrl.evaluation.bootstrap import Indices
from groundrl.geometry.boxes import Float64, as_array, pairwise_iou
from groundrl.geometry.labels import normalise_label
from groundrl.geometry.matching import greedy_match
from groundrl.rewards.detection import COCO_THRESHOLDS, CategoryMatch, Scene, accumulate, match_scene
from groundrl.types import LabeledBox

GREEDY_IOU = 0.5


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


class DetectionSet:
    """Scenes matched once, whose metrics can be computed over any multiset of them.

    `indices` of the methods name scenes, int64, repeats allowed; None means each once, in order. AP ranks
    scenes in the order of `indices`. Bootstrap draws must not be sorted: repeats that stand side by side make
    long runs of hits and misses, whose peaks lift interpolated precision above what the full set gives.
    """

    def __init__(self, scenes: Sequence[Scene], *, thresholds: Sequence[float] = COCO_THRESHOLDS) -> None:
        """thresholds [T]: the IoU thresholds of `average_precision`, in order."""
        self._size = len(scenes)
        blocks: dict[str, list[tuple[int, CategoryMatch]]] = {}
        for index, scene in enumerate(scenes):
            for label, match in match_scene(scene, thresholds).items():
                blocks.setdefault(label, []).append((index, match))
        kept = [block for block in blocks.values() if any(match.num_truths for _, match in block)]
        flat = [(kind, index, match) for kind, block in enumerate(kept) for index, match in block]
        flat.sort(key=lambda entry: entry[1])  # one block per scene and category, scene by scene
        self._num_categories = len(kept)
        self._category = np.array([kind for kind, _, _ in flat], dtype=np.int64)
        self._blocks = np.bincount([index for _, index, _ in flat], minlength=self._size)  # of each scene
        self._truths = np.array([match.num_truths for _, _, match in flat], dtype=np.int64)
        self._width = np.array([match.hits.shape[1] for _, _, match in flat], dtype=np.int64)
        self._start = np.cumsum(self._width) - self._width
        empty = np.zeros((len(thresholds), 0), dtype=np.bool_)
        self._hits = np.concatenate([empty, *(match.hits for _, _, match in flat)], axis=1)
        self._counts = np.array(
            [
                (greedy_matches(scene), len(scene.predictions) + scene.rejected, len(scene.truths))
                for scene in scenes
            ],
            dtype=np.int64,
        ).reshape(-1, 3)

    def average_precision(self, indices: Indices | None = None) -> Float64:
        """AP per threshold [T], averaged over the categories that have true boxes; nan if there are none."""
        scenes = np.arange(self._size) if indices is None else indices
        block = _ranges(np.cumsum(self._blocks)[scenes] - self._blocks[scenes], self._blocks[scenes])
        block = block[np.argsort(self._category[block], kind="stable")]
        num_truths = np.zeros(self._num_categories, dtype=np.int64)
        np.add.at(num_truths, self._category[block], self._truths[block])
        if not num_truths.any():
            return np.full(len(self._hits), np.nan)
        columns = _ranges(self._start[block], self._width[block])
        category = np.repeat(self._category[block], self._width[block])
        return np.nanmean(accumulate(self._hits[:, columns], category, num_truths), axis=1)

    def precision_recall(self, indices: Indices | None = None) -> tuple[float, float]:
        """Greedy precision and recall at IoU 0.5.

        Where a denominator is 0 the value is 1 if the other is 0 too (nothing true, nothing claimed), else 0.
        """
        counts = self._counts if indices is None else self._counts[indices]
        matches, claimed, truths = (int(count) for count in counts.sum(axis=0))
        nothing = float(claimed == 0 and truths == 0)
        return (matches / claimed if claimed else nothing, matches / truths if truths else nothing)
