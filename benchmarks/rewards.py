"""odLength on text against a pycocotools call per completion, which is how the released code computes it.

Ours: `Rubric.grade_all` of reward=odlength without its format term, from the text of each completion to its
breakdown, in calls of 128 completions as training at paper scale makes them.
Baseline: the last JSON fence of the last answer block, `json.loads`, a COCO object from dicts, `loadRes`,
`COCOeval` (evaluate, accumulate, summarize, output discarded), times the length factor.

Both score the same completions of 1, 10 and 100 boxes. Passes over the set are interleaved in one process
with one thread; rates are CPU medians, the ratio's range is that of the interleaved pairs. Values must agree
to 1e-9 on every completion, or the script fails.

    python benchmarks/rewards.py [--quick] [--write]
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import os
import platform
import resource
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np

from groundrl.config.compose import compose_run
from groundrl.rewards.rubric import Rubric
from groundrl.rollout.written import written_rollout
from groundrl.types import XYXY, ImageFrame, LabeledBox, Rollout, Sample, Scored, Task, Truth

SIZES = (1, 10, 100)
WIDTH, HEIGHT = 640, 480
FRAME = ImageFrame(original=(WIDTH, HEIGHT), processed=(WIDTH, HEIGHT))
LABELS = ("person", "bicycle", "dog", "traffic light", "cup")
STEP = 128
"""Completions graded in one call: the published step, 16 prompts of 8."""
TOLERANCE = 1e-9
RESULT = Path(__file__).parent / "results" / "rewards.json"

Pair = tuple[Sample, Rollout]


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """One number of boxes; seconds of each interleaved pass over all completions."""

    boxes: int
    completions: int
    ours: list[float]
    released: list[float]
    largest_difference: float

    def record(self) -> dict[str, Any]:
        ratios = sorted(theirs / ours for ours, theirs in zip(self.ours, self.released, strict=True))
        return {
            "boxes": self.boxes,
            "ours_per_s": round(self.completions / statistics.median(self.ours), 1),
            "released_per_s": round(self.completions / statistics.median(self.released), 1),
            "ratio_median": round(statistics.median(ratios), 1),
            "ratio_low_high": [round(ratios[0], 1), round(ratios[-1], 1)],
            "largest_difference": self.largest_difference,
        }


def random_box(rng: np.random.Generator) -> list[int]:
    width, height = rng.integers(16, 160, size=2).tolist()
    left, top = int(rng.integers(0, WIDTH - width)), int(rng.integers(0, HEIGHT - height))
    return [left, top, left + width, top + height]


def shifted(box: list[int], rng: np.random.Generator) -> list[int]:
    """The box with each side moved by up to an eighth of its length, inside the image."""
    width, height = box[2] - box[0], box[3] - box[1]
    moves = rng.uniform(-1 / 8, 1 / 8, size=4) * [width, height, width, height]
    low, high = np.zeros(4), np.array([WIDTH, HEIGHT, WIDTH, HEIGHT])
    return np.clip(np.round(np.array(box) + moves), low, high).astype(int).tolist()


def completion(number: int, boxes: int) -> Pair:
    """A sample and an answer of `boxes` boxes: two thirds near a true box, the rest anywhere."""
    rng = np.random.default_rng([boxes, number])
    count = int(rng.integers(max(1, boxes // 3), boxes + 1))
    truths = [(random_box(rng), LABELS[int(rng.integers(len(LABELS)))]) for _ in range(count)]
    items: list[dict[str, object]] = []
    for _ in range(boxes):
        box, label = truths[int(rng.integers(count))]
        near = rng.random() < 2 / 3
        if not near:
            box, label = random_box(rng), LABELS[int(rng.integers(len(LABELS)))]
        items.append({"bbox_2d": shifted(box, rng) if near else box, "label": label})
    text = f"<think>I look at every object.</think><answer>```json\n{json.dumps(items)}\n```</answer>"
    true = tuple(
        LabeledBox(xyxy=(float(x1), float(y1), float(x2), float(y2)), label=label)
        for (x1, y1, x2, y2), label in truths
    )
    sample = Sample(id=f"{boxes}-{number}", task=Task.ovd, images=(), truth=Truth(boxes=true), targets=LABELS)
    return sample, written_rollout(sample.id, text, [FRAME])


def xywh(box: XYXY | list[float]) -> list[float]:
    return [box[0], box[1], box[2] - box[0], box[3] - box[1]]


def released_odlength(sample: Sample, rollout: Rollout) -> float:
    """odLength of one completion through pycocotools."""
    from pycocotools.coco import COCO
    from pycocotools.cocoeval import COCOeval

    answer = rollout.text.rpartition("<answer>")[2].partition("</answer>")[0]
    items: list[dict[str, Any]] = json.loads(answer.rpartition("```json")[2].partition("```")[0])
    truths = sample.truth.boxes
    category = {label: index for index, label in enumerate(dict.fromkeys(t.label for t in truths), start=1)}
    annotations: list[dict[str, Any]] = []
    for index, true in enumerate(truths, start=1):
        box = xywh(true.xyxy)
        annotations.append(
            {"id": index, "image_id": 1, "category_id": category[true.label], "bbox": box,
             "area": box[2] * box[3], "iscrowd": 0}
        )  # fmt: skip
    claims = [
        {"image_id": 1, "category_id": category[item["label"]], "bbox": xywh(item["bbox_2d"]), "score": 1.0}
        for item in items
        if item["label"] in category
    ]
    if not claims:
        return 0.0
    with contextlib.redirect_stdout(io.StringIO()):
        truth: Any = COCO()
        truth.dataset = {
            "info": {},
            "images": [{"id": 1, "width": WIDTH, "height": HEIGHT}],
            "annotations": annotations,
            "categories": [{"id": index, "name": label} for label, index in category.items()],
        }
        truth.createIndex()
        evaluator = COCOeval(truth, truth.loadRes(claims), "bbox")
        evaluator.evaluate()
        evaluator.accumulate()
        evaluator.summarize()
    return float(evaluator.stats[0]) * min(1.0, len(truths) / len(items))


def our_odlength(rubric: Rubric, pairs: list[Pair]) -> list[float]:
    values: list[float] = []
    for start in range(0, len(pairs), STEP):
        step = [(rollout, sample) for sample, rollout in pairs[start : start + STEP]]
        terms = [one.breakdown.terms["odlength"] for one in rubric.grade_all(step)]
        values += [term.value for term in terms if isinstance(term, Scored)]
    return values


def released_odlengths(pairs: list[Pair]) -> list[float]:
    return [released_odlength(sample, rollout) for sample, rollout in pairs]


def timed(values: Callable[[list[Pair]], list[float]], pairs: list[Pair]) -> tuple[float, list[float]]:
    start = time.process_time()
    found = values(pairs)
    return time.process_time() - start, found


def measure(rubric: Rubric, boxes: int, *, completions: int, passes: int) -> Timing:
    """Raises AssertionError where the two disagree."""
    pairs = [completion(number, boxes) for number in range(completions)]
    ours: list[float] = []
    released: list[float] = []
    difference = 0.0
    timed(partial(our_odlength, rubric), pairs[:64])  # warms up
    timed(released_odlengths, pairs[:8])
    for _ in range(passes):
        seconds, mine = timed(partial(our_odlength, rubric), pairs)
        ours.append(seconds)
        seconds, theirs = timed(released_odlengths, pairs)
        released.append(seconds)
        difference = float(np.abs(np.array(mine) - theirs).max())
        assert difference <= TOLERANCE, f"values differ by {difference} at {boxes} boxes"
    return Timing(
        boxes=boxes, completions=completions, ours=ours, released=released, largest_difference=difference
    )


def peak_mib() -> float:
    """Peak resident memory of this process."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return round(peak / (2**20 if sys.platform == "darwin" else 2**10), 1)


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true", help="64 completions and 3 passes")
    parser.add_argument("--write", action="store_true", help=f"write {RESULT.name}")
    options = parser.parse_args()
    completions, passes = (64, 3) if options.quick else (1024, 5)
    rubric = compose_run(["reward=odlength", "~reward.terms.format"]).reward.build()
    for boxes in SIZES:  # our peak, before pycocotools is imported
        our_odlength(rubric, [completion(number, boxes) for number in range(completions)])
    ours_mib = peak_mib()
    rows: list[dict[str, Any]] = []
    for boxes in SIZES:
        row = measure(rubric, boxes, completions=completions, passes=passes).record()
        low, high = row["ratio_low_high"]
        print(
            f"{boxes:4d} boxes: {row['ours_per_s']:8.0f}/s against {row['released_per_s']:6.0f}/s, "
            f"{row['ratio_median']:.0f}x ({low:.0f}x to {high:.0f}x), "
            f"largest difference {row['largest_difference']:.1e}",
            flush=True,
        )
        rows.append(row)
    print(f"peak memory {ours_mib} MiB after ours alone, {peak_mib()} MiB at the end")
    result = {
        "completions": completions,
        "passes": passes,
        "sizes": rows,
        "peak_mib_ours": ours_mib,
        "peak_mib_end": peak_mib(),
        "machine": f"{platform.machine()}, {os.cpu_count()} cores, one thread",
        "numpy": np.__version__,
    }
    if options.write:
        RESULT.parent.mkdir(exist_ok=True)
        RESULT.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
