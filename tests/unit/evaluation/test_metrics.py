"""Named metrics of hand-written completions."""

import json
from dataclasses import asdict

import numpy as np
import pytest

from groundrl.errors import UserError
from groundrl.evaluation.bootstrap import paired_difference, resample_indices
from groundrl.evaluation.coco import coco_metrics
from groundrl.evaluation.detection import CocoSet
from groundrl.evaluation.metrics import SampleResult, dataset_difference, per_sample, summarise
from groundrl.parsing.answer import ParseStatus, parse_rollout
from groundrl.rewards.detection import Scene
from groundrl.rewards.format import FormatConfig
from groundrl.rewards.iou import IouConfig
from groundrl.rewards.odlength import OdLengthConfig
from groundrl.rewards.rubric import RubricConfig
from groundrl.types import (
    ImageFrame,
    LabeledBox,
    Missing,
    Role,
    Rollout,
    RolloutStatus,
    Sample,
    Segment,
    Task,
    Truth,
)

FRAME = ImageFrame(original=(640, 480), processed=(640, 480))
RUBRIC = RubricConfig(
    terms={"iou": IouConfig(), "odlength": OdLengthConfig(), "format": FormatConfig(weight=0.5)}
).build()


def result(name, task, truth, *texts, tokens=10, status=RolloutStatus.FINISHED) -> SampleResult:
    boxes = tuple(LabeledBox(xyxy=xyxy, label=label) for xyxy, label in truth)
    sample = Sample(id=name, task=task, images=(), truth=Truth(boxes=boxes))
    segment = Segment(
        prompt_ids=np.zeros(3, dtype=np.int64),
        images=(),
        response_ids=np.zeros(tokens + 1, dtype=np.int64),
        roles=np.array([Role.STUDENT] * tokens + [Role.TEMPLATE], dtype=np.int8),
        behaviour_logprobs=np.zeros(tokens + 1, dtype=np.float32),
    )
    rollouts = [
        Rollout(
            sample_id=name,
            group=0,
            index=index,
            segments=[segment],
            status=status,
            text=text,
            frames=(FRAME,),
        )
        for index, text in enumerate(texts)
    ]
    return SampleResult(
        sample=sample,
        rollouts=rollouts,
        answers=[parse_rollout(rollout, sample) for rollout in rollouts],
        breakdowns=[RUBRIC.score(rollout, sample) for rollout in rollouts],
    )


def wrap(body) -> str:
    return f"<think>t</think><answer>{body}</answer>"


TRUE = [((0, 0, 100, 100), "")]
EXACT, HALF, MOST = wrap("[0, 0, 100, 100]"), wrap("[0, 0, 50, 100]"), wrap("[0, 0, 75, 100]")
TWO = wrap("[[0, 0, 100, 100], [0, 0, 100, 100]]")


def test_greedy_rec() -> None:
    results = [
        result("a", Task.rec, TRUE, EXACT, tokens=10),
        result("b", Task.rec, TRUE, HALF, tokens=20),  # IoU 0.5 is not above 0.5
        result("c", Task.rec, TRUE, TWO, tokens=60),
        result("d", Task.rec, TRUE, "<answer>[0, 0, 7", tokens=30, status=RolloutStatus.TRUNCATED_LENGTH),
    ]
    metrics = summarise(results, prefix="greedy", resamples=50)
    values = {name.removeprefix("greedy/"): metric.value for name, metric in metrics.items()}
    assert values.pop("parse/ok_frac") == 0.5
    assert values.pop("parse/several_boxes_frac") == 0.25
    assert values.pop("parse/truncated_frac") == 0.25
    for status in set(ParseStatus) - {"ok", "several_boxes", "truncated"}:
        assert values.pop(f"parse/{status.value}_frac") == 0
    assert values == {
        "iou": 1.5 / 4,
        "acc50": 0.25,
        "acc75": 0.25,
        "acc90": 0.25,
        "format": 0.5,
        "tokens_mean": 30,
        "tokens_min": 10,
        "tokens_max": 60,
        "truncated_frac": 0.25,
        "parse/rejected_mean": 0.5,
        "parse/clipped_mean": 0,
        "reward/iou": 1.5 / 4,
        "reward/iou_missing_frac": 0,
        "reward/format": 0.5,
        "reward/format_missing_frac": 0,
        "reward/total": (1.5 + 0.5 * 2) / 4,
        "monitor/items_per_truth": (1 + 1 + 2 + 0) / 4,
        "monitor/long_frac": 0,
        "monitor/think_words": 0.75,
        "monitor/think_distinct": 0.5,  # "t" and nothing
    }
    assert list(metrics) == sorted(metrics)
    for metric in metrics.values():
        assert metric.low <= metric.value <= metric.high
    assert (metrics["greedy/tokens_max"].low, metrics["greedy/tokens_max"].high) == (20, 60)
    assert (metrics["greedy/tokens_min"].low, metrics["greedy/tokens_min"].high) == (10, 30)


def test_sampled_rec() -> None:
    results = [
        result("a", Task.rec, TRUE, HALF, MOST, "x", EXACT),
        result("b", Task.rec, TRUE, HALF, HALF, HALF, HALF),
    ]
    metrics = summarise(results, prefix="sampled", resamples=10)
    expected = {"iou": (2.25 / 4 + 0.5) / 2, "acc50": 0.25, "pass@4": 0.5, "best@4": 0.75}
    assert {name: metrics[f"sampled/{name}"].value for name in expected} == expected


CAT, DOG = ((0, 0, 100, 100), "cat"), ((200, 200, 300, 300), "dog")


def listed(*boxes) -> str:
    items = [{"bbox_2d": list(xyxy), "label": label} for xyxy, label in boxes]
    return wrap("```json\n" + json.dumps(items) + "\n```")


def test_greedy_ovd() -> None:
    results = [
        result("a", Task.ovd, [CAT, DOG], listed(CAT, ((1, 0, 101, 100), "Cat"), DOG)),
        result("b", Task.ovd, [CAT], listed(((400, 400, 500, 470), "unicorn"), ((9, 9, 1, 1), "cat"))),
        result("c", Task.ovd, [], wrap("None")),
        result("d", Task.ovd, [], wrap("nothing")),
    ]
    metrics = summarise(results, prefix="greedy", resamples=20)
    expected = {
        "ap": (51 / 101 + 1) / 2,  # cat: one of two found, dog: found
        "ap50": (51 / 101 + 1) / 2,
        "gp50": 2 / 5,
        "gr50": 2 / 3,
        "image_ap": (1 + 0 + 1 + 0) / 4,
        "boxes_mean": 1.0,
        "absent_boxes_mean": 0.25,
        "duplicates_mean": 0.25,
        "parse/rejected_mean": 0.25,
        "parse/none_frac": 0.25,
        "parse/bad_json_frac": 0.25,
        "false_alarm": 0.0,
        "monitor/items_per_truth": (3 / 2 + 2 / 1) / 2,
        "monitor/duplicates_frac": (1 / 3) / 4,
        "monitor/unknown_labels_frac": (1 / 2) / 4,
        "monitor/think_distinct": 0.25,
        "format": 0.75,
        "reward/odlength": (2 / 3 + 0 + 1 + 0) / 4,
        "reward/format": 0.75,
    }
    actual = {name: metrics[f"greedy/{name}"].value for name in expected}
    assert actual == pytest.approx(expected, abs=1e-12)
    assert not any("@" in name for name in metrics)
    assert metrics["greedy/ap"].low < metrics["greedy/ap"].value < metrics["greedy/ap"].high


def test_sampled_ovd_averages_over_data_sets_of_one_completion_each() -> None:
    results = [
        result("a", Task.ovd, [CAT], listed(CAT), listed(DOG)),
        result("b", Task.ovd, [CAT], listed(CAT), wrap("None")),
        result("c", Task.ovd, [], wrap("None"), listed(CAT)),
    ]
    metrics = summarise(results, prefix="sampled", resamples=5)
    expected = {
        "ap": 0.5,
        "gp50": (1 + 0) / 2,
        "gr50": 0.5,
        "image_ap": 0.5,
        "pass@2": 1.0,
        "best@2": 1.0,
        "boxes_mean": (1 + 0.5 + 0.5) / 3,
        "absent_boxes_mean": (0.5 + 0 + 0.5) / 3,
    }
    assert {name: metrics[f"sampled/{name}"].value for name in expected} == pytest.approx(expected)


def test_negatives_only_have_no_data_set_ap() -> None:
    metrics = summarise([result("a", Task.ovd, [], wrap("None"))], prefix="greedy", resamples=5)
    assert "greedy/ap" not in metrics
    assert "greedy/gp50" not in metrics
    assert "greedy/gr50" not in metrics
    assert (metrics["greedy/image_ap"].value, metrics["greedy/negatives_right"].value) == (1, 1)


def test_an_unreadable_answer_on_a_negative_is_no_false_alarm_and_not_right() -> None:
    metrics = summarise([result("a", Task.ovd, [], wrap('[{"bbox'))], prefix="greedy", resamples=5)
    assert (metrics["greedy/false_alarm"].value, metrics["greedy/negatives_right"].value) == (0, 0)


def test_missing_rewards_are_counted_and_left_out_of_means() -> None:
    first, second = (result(name, Task.rec, TRUE, EXACT, HALF) for name in "ab")
    for row in second.breakdowns:
        row.terms["iou"], row.total = Missing("no answer"), None
    first.breakdowns[0].terms["iou"], first.breakdowns[0].total = Missing("no answer"), None
    metrics = summarise([first, second], prefix="sampled", resamples=5)
    assert metrics["sampled/reward/iou_missing_frac"].value == 0.75
    assert metrics["sampled/reward/iou"].value == 0.5
    assert metrics["sampled/reward/total"].value == 1.0
    assert per_sample([first, second])["reward/iou"] == {"a": 0.5}


def test_other_tasks_get_the_common_metrics() -> None:
    metrics = summarise([result("a", Task.mcq, [], wrap("B"))], prefix="greedy", resamples=5)
    assert metrics["greedy/reward/format"].value == 1
    assert not {"greedy/iou", "greedy/ap", "greedy/image_ap"} & set(metrics)


def test_mixed_tasks_keep_their_metrics_apart() -> None:
    results = [
        result("a", Task.rec, TRUE, EXACT, HALF),
        result("b", Task.ovd, [CAT], listed(DOG), wrap("None")),
        result("c", Task.mcq, [], wrap("B"), wrap("")),
    ]
    metrics = summarise(results, prefix="sampled", resamples=5)
    expected = {
        "iou": 0.75,
        "image_ap": 0.0,
        "ap": 0.0,
        "gp50": 0.0,
        "pass@2": 0.5,
        "parse/empty_frac": 1 / 6,
    }
    assert {name: metrics[f"sampled/{name}"].value for name in expected} == pytest.approx(expected)


def test_per_sample_vectors_pair() -> None:
    before = [result(name, Task.rec, TRUE, HALF) for name in "ab"]
    after = [result("b", Task.rec, TRUE, EXACT), result("a", Task.rec, TRUE, HALF)]
    assert per_sample(after)["iou"] == {"a": 0.5, "b": 1.0}
    change = paired_difference(per_sample(before)["iou"], per_sample(after)["iou"], resamples=100)
    assert (change.value, change.low, change.high) == (0.25, 0.0, 0.5)


def test_data_set_differences_are_paired() -> None:
    def results(hits, order=1) -> list[SampleResult]:
        rows = [result(str(i), Task.ovd, [CAT], listed(CAT if i < hits else DOG)) for i in range(8)]
        return rows[::order]

    gain = dataset_difference(results(2), results(6, -1), resamples=200)
    assert list(gain) == ["gp50", "gr50", "ap", "ap50", "ap75", "ap_large"]  # boxes of 100 x 100
    assert (gain["gp50"].value, gain["gr50"].value) == (0.5, 0.5)
    assert 0 < gain["gr50"].low < 0.5 < gain["gr50"].high < 1
    one = summarise(results(6), prefix="greedy", resamples=0)["greedy/ap"].value
    two = summarise(results(2), prefix="greedy", resamples=0)["greedy/ap"].value
    assert gain["ap"].value == pytest.approx(one - two)
    same = dataset_difference(results(3), results(3, -1), resamples=50)
    assert all((metric.low, metric.value, metric.high) == (0, 0, 0) for metric in same.values())


def test_data_set_differences_need_the_same_detection_samples() -> None:
    first, second = (result(name, Task.ovd, [CAT], listed(CAT)) for name in "ab")
    with pytest.raises(UserError, match="2 detection samples"):
        dataset_difference([first], [second])
    rec = result("c", Task.rec, TRUE, EXACT)
    assert dataset_difference([rec], []) == {}
    negative = [result("a", Task.ovd, [], wrap("None"))]
    assert list(dataset_difference(negative, negative, resamples=5)) == []


def test_what_summarise_refuses() -> None:
    rec = result("a", Task.rec, TRUE, EXACT)
    two = result("c", Task.rec, TRUE, EXACT, HALF)
    for results, prefix, message in (
        ([], "greedy", "no results"),
        ([two], "greedy", r"greedy results with \[2\]"),
        ([rec, two], "sampled", r"sampled results with \[1, 2\]"),
        ([rec, rec], "greedy", "'a' occurs twice"),
    ):
        with pytest.raises(ValueError, match=message):
            summarise(results, prefix=prefix)
    with pytest.raises(ValueError, match="one answer and one breakdown"):
        SampleResult(sample=rec.sample, rollouts=rec.rollouts, answers=[], breakdowns=rec.breakdowns)


def test_summaries_are_deterministic() -> None:
    results = [result(str(i), Task.ovd, [CAT], listed(CAT if i % 3 else DOG)) for i in range(9)]
    first = summarise(results, prefix="greedy", seed=7, resamples=30)
    assert summarise(results, prefix="greedy", seed=7, resamples=30) == first
    assert summarise(results, prefix="greedy", seed=8, resamples=30) != first


def test_a_data_set_difference_is_that_of_the_two_summaries() -> None:
    """AP of equal scores depends on the order of samples; ids need not sort as they come."""

    def results(pattern: str) -> list[SampleResult]:
        box = ((0, 0, 10, 10), "cat")
        miss = ((50, 50, 60, 60), "cat")
        said = {"h": listed(box), "m": listed(miss), "b": listed(miss, box)}
        names = [f"s-{len(pattern) - number}" for number in range(len(pattern))]
        return [result(name, Task.ovd, [box], said[kind]) for name, kind in zip(names, pattern, strict=True)]

    old, new = results("mmhbhhmbm"), results("hmbmhbhhh")
    gain = dataset_difference(old, new, resamples=20)
    before, after = (summarise(rows, prefix="greedy", resamples=0) for rows in (old, new))
    assert 0 < before["greedy/ap"].value < after["greedy/ap"].value < 1
    for name in ("ap", "ap50", "ap75", "ap_small", "gp50", "gr50"):
        assert gain[name].value == pytest.approx(
            after[f"greedy/{name}"].value - before[f"greedy/{name}"].value, abs=1e-12
        )


def mixed_results() -> tuple[list[SampleResult], list[Scene]]:
    """40 samples of two sizes whose answers are exact, shifted, copied, false, or a false one first."""
    rng = np.random.default_rng(3)
    results, scenes = [], []
    for number in range(40):
        side = int(rng.choice([20, 60]))
        true = ((0, 0, side, side), str(rng.choice(["cat", "dog"])))
        near = ((0, 0, 7 * side // 10, side), true[1])
        far = ((300, 300, 300 + side, 300 + side), str(rng.choice(["cat", "dog"])))
        said = ((true,), (near, far), (far, true), (true, near, true), (far,), (far, far, near))
        results.append(result(str(number), Task.ovd, [true], listed(*said[number % 6])))
        answer = results[-1].answers[0]
        scenes.append(Scene(predictions=answer.boxes, truths=results[-1].sample.truth.boxes))
    return results, scenes


def test_the_values_are_those_of_pycocotools_and_the_intervals_those_of_the_same_set() -> None:
    results, scenes = mixed_results()
    metrics = summarise(results, prefix="greedy", seed=4, resamples=60)
    tool, fast = asdict(coco_metrics(scenes)), CocoSet(scenes)
    names = ("ap", "ap50", "ap75", "ap_small", "ap_medium")
    assert "greedy/ap_large" not in metrics
    draws = [fast.metrics(indices) for indices in resample_indices(40, seed=4, resamples=60)]
    for name in names:
        metric = metrics[f"greedy/{name}"]
        assert metric.value == tool[name]
        assert fast.metrics()[name] == pytest.approx(tool[name], abs=1e-9)
        low, high = np.quantile([draw[name] for draw in draws], [0.025, 0.975])
        assert (metric.low, metric.high) == pytest.approx((low, high), abs=1e-9)
        assert metric.low < metric.high
    assert len({metrics[f"greedy/{name}"].value for name in names}) == 5


def test_without_resamples_the_bounds_are_the_value() -> None:
    results, scenes = mixed_results()
    found = summarise(results, prefix="greedy", resamples=0)
    assert found["greedy/ap"].value == CocoSet(scenes).metrics()["ap"]
    for metric in found.values():
        assert metric.low == metric.value == metric.high


def test_false_alarms_are_counted_over_negatives_only() -> None:
    results = [
        result("a", Task.ovd, [CAT], listed(DOG)),
        result("b", Task.ovd, [], listed(DOG)),
        result("c", Task.ovd, [], wrap("None")),
        result("d", Task.ovd, [], listed(((9, 9, 1, 1), "cat"))),  # refused, but claimed
    ]
    assert per_sample(results)["false_alarm"] == {"b": 1, "c": 0, "d": 1}
    assert summarise(results, prefix="greedy", resamples=5)["greedy/false_alarm"].value == 2 / 3
    assert "greedy/false_alarm" not in summarise(results[:1], prefix="greedy", resamples=5)


def test_distinct_thoughts_are_shared_out_over_all_answers() -> None:
    """Six answers, texts t (5 times) and u: each t counts a fifth."""
    other = "<think>u</think><answer>None</answer>"
    results = [
        result("a", Task.ovd, [CAT], wrap("None"), wrap("None"), other),
        result("b", Task.ovd, [CAT], *[wrap("None")] * 3),
    ]
    vector = per_sample(results)["monitor/think_distinct"]
    assert vector == pytest.approx({"a": (1 / 5 + 1 / 5 + 1) / 3, "b": 1 / 5})
    metrics = summarise(results, prefix="sampled", resamples=5)
    assert metrics["sampled/monitor/think_distinct"].value == pytest.approx(2 / 6)


def test_the_form_is_kept_by_refused_items_but_not_by_text_around_the_tags() -> None:
    refused = listed(CAT, ((9, 9, 1, 1), "cat"))
    results = [
        result("a", Task.ovd, [CAT], refused),
        result("b", Task.ovd, [CAT], "Sure! " + listed(CAT)),
        result("c", Task.ovd, [CAT], listed(((9, 9, 1, 1), "cat"))),  # nothing usable is left
    ]
    assert per_sample(results)["format"] == {"a": 1, "b": 0, "c": 0}
