"""AP per source and its means."""

from __future__ import annotations

import numpy as np
import pytest

from groundrl.evaluation.config import Measure
from groundrl.evaluation.metrics import SampleResult
from groundrl.evaluation.sources import source_difference, source_metrics
from groundrl.parsing.answer import parse_rollout
from groundrl.rollout.written import written_rollout
from groundrl.types import ImageFrame, LabeledBox, RewardBreakdown, Sample, Task, Truth

FRAME = ImageFrame(original=(100, 100), processed=(100, 100))
RIGHT = '[{"bbox_2d": [0, 0, 10, 10], "label": "dog"}]'
BOTH = '[{"bbox_2d": [0, 0, 10, 10], "label": "cat"}, {"bbox_2d": [0, 0, 10, 10], "label": "dog"}]'
DOG_THEN_CAT = '[{"bbox_2d": [0, 0, 10, 10], "label": "dog"}, {"bbox_2d": [0, 0, 10, 10], "label": "cat"}]'


def result(name: str, source: str, text: str, *, empty: bool = False) -> SampleResult:
    boxes = () if empty else (LabeledBox(xyxy=(0, 0, 10, 10), label="dog"),)
    sample = Sample(
        id=name, task=Task.ovd, images=(), truth=Truth(boxes=boxes), targets=("dog", "cat"), source=source
    )
    rollout = written_rollout(name, f"<answer>{text}</answer>", [FRAME])
    empty_breakdown = RewardBreakdown(task=Task.ovd, terms={}, weights={}, total=None)
    return SampleResult(
        sample=sample,
        rollouts=[rollout],
        answers=[parse_rollout(rollout, sample)],
        breakdowns=[empty_breakdown],
    )


def test_each_source_and_their_mean() -> None:
    """a: one right of one, AP 1; b: nothing found, AP 0; c has no true box and no AP."""
    results = [
        result("1", "a", RIGHT),
        result("2", "b", "None"),
        result("3", "b", "None"),
        result("4", "c", RIGHT, empty=True),
    ]
    metrics = source_metrics(results, Measure.per_source, resamples=100)
    values = {name: metric.value for name, metric in metrics.items()}
    assert values == pytest.approx({"source/a/ap": 1.0, "source/b/ap": 0.0, "mean_ap": 0.5})
    assert (
        metrics["mean_ap"].low == metrics["mean_ap"].high == metrics["mean_ap"].value
    )  # sources are not resampled
    assert source_metrics(results, Measure.plain) == {}


def test_the_interval_resamples_within_sources() -> None:
    """Half of a's two samples are found: resamples have 0, 1 or 2 of them (AP about 0, 0.5, 1); b is sure."""
    results = [result("1", "a", RIGHT), result("2", "a", "None"), result("3", "b", RIGHT)]
    metrics = source_metrics(results, Measure.per_source, seed=3, resamples=400)
    half = 51 / 101  # 101-point interpolation: recall 0 to 0.5 at precision 1
    assert metrics["source/a/ap"].value == pytest.approx(half)
    assert metrics["source/a/ap"].low == pytest.approx(0.0)
    assert metrics["source/a/ap"].high == pytest.approx(1.0)
    assert metrics["mean_ap"].value == pytest.approx((half + 1) / 2)
    assert metrics["mean_ap"].low == pytest.approx(0.5)
    assert source_metrics(results, Measure.per_source, seed=3, resamples=400) == metrics


def test_nms_ap_keeps_the_last_of_two_labels_on_a_box() -> None:
    """Both labels claimed: the last emitted stays (equal scores), so the order decides between AP 1 and 0."""
    last_right = source_metrics([result("1", "logo", BOTH)], Measure.ovdeval, resamples=100)
    last_wrong = source_metrics([result("1", "logo", DOG_THEN_CAT)], Measure.ovdeval, resamples=100)
    assert {n: metric.value for n, metric in last_right.items()} == {"subset/logo/nms_ap": pytest.approx(1)}
    assert {name: metric.value for name, metric in last_wrong.items()} == {"subset/logo/nms_ap": 0.0}
    plain = source_metrics([result("1", "logo", DOG_THEN_CAT)], Measure.per_source, resamples=100)
    assert plain["source/logo/ap"].value == pytest.approx(
        1.0
    )  # without the suppression the wrong label is free


def test_aspects_and_overall_need_all_their_subsets() -> None:
    """color 1, material 0: attribute 0.5. With all eight sub-sets right but material: (1 + 0.5 + 3) / 5."""
    pair = [result("1", "color", RIGHT), result("2", "material", "None")]
    metrics = source_metrics(pair, Measure.ovdeval, resamples=100)
    assert metrics["aspect/attribute"].value == pytest.approx(0.5)
    assert "overall" not in metrics
    names = ("celebrity", "logo", "landmark", "position", "relationship", "negation")
    whole = [*pair, *(result(str(n), name, RIGHT) for n, name in enumerate(names, start=3))]
    metrics = source_metrics(whole, Measure.ovdeval, resamples=100)
    assert metrics["overall"].value == pytest.approx(4.5 / 5)
    assert metrics["overall"].low == pytest.approx(0.9)


def test_the_difference_is_paired() -> None:
    """The same sample is won in both, so its draws cancel: the interval is that of the other alone."""
    before = [result("1", "a", RIGHT), result("2", "a", "None")]
    after = [result("1", "a", RIGHT), result("2", "a", RIGHT)]
    metrics = source_difference(before, after, Measure.per_source, seed=3, resamples=400)
    assert metrics["mean_ap"].value == pytest.approx(1 - 51 / 101)
    assert metrics["mean_ap"].low == pytest.approx(0.0, abs=1e-9)
    same = source_difference(before, before, Measure.per_source, resamples=100)
    assert np.allclose([same["mean_ap"].value, same["mean_ap"].low, same["mean_ap"].high], 0.0)
    assert source_difference(before, after, Measure.plain) == {}
