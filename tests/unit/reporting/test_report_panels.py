"""Which metric lands in which chart, and the table of before and after."""

from __future__ import annotations

from groundrl.reporting.headlines import split
from groundrl.reporting.heldout import heldout_panel
from groundrl.reporting.outcome import build_outcome
from groundrl.reporting.panels import train_panels

ROWS = [
    (
        step,
        {
            "reward/total": 0.5,
            "reward/iou": 0.4,
            "reward/rec/total": 0.6,
            "reward/ovd/total": 0.4,
            "rollout/truncated_frac": 0.1,
            "rollout/truncated_length_frac": 0.1,
            "rollout/error_tool_frac": 0.2,
            "parse/rejected_mean": 0.5,
            "learner/rows": 64.0,
            "parse/ok_frac": 0.9,
            "parse/none_frac": 0.02,
            "parse/bad_json_frac": 0.03,
            "parse/no_box_frac": 0.05,
            "time/step": 2.0,
            "time/rollout": 1.0,
            "time/learner": 0.5,
        },
    )
    for step in range(1, 5)
]


def test_charts_and_their_series() -> None:
    shown = {
        chart.title: [name for _, name, _ in chart.legend]
        for panel in train_panels(ROWS)
        for chart in panel.charts
    }
    assert shown == {
        "Reward and its terms": ["total", "iou"],
        "Reward by task": ["rec", "ovd"],
        "Answers that could not be read": ["no_box", "bad_json"],
        "Ended early": ["truncated", "error_tool"],
        "Boxes refused or clipped": ["refused"],
        "Time per step by stage": ["rollout", "learner", "other"],
        "learner/rows": ["value"],
    }


def test_the_account_of_time_is_whole() -> None:
    panel = next(panel for panel in train_panels(ROWS) if panel.bar)
    assert panel.bar == [
        ("c0", "rollout", 0.0, 50.0),
        ("c1", "learner", 50.0, 25.0),
        ("cn", "other", 75.0, 25.0),
    ]
    assert panel.lead == "8s in 4 training steps, evaluations not counted."


def test_without_metrics_there_are_no_panels() -> None:
    assert train_panels([]) == []
    assert train_panels([(1, {"reward/total": None})]) == []
    assert heldout_panel([], {}) is None
    assert heldout_panel([(0, {"a": None})], {}) is None


def test_held_out_metrics_have_a_chart_each() -> None:
    evals = [
        (0, {"a": {"value": 0.1, "low": 0.0, "high": 0.2}, "b": 3.0}),
        (5, {"a": {"value": 0.4}, "b": None}),
    ]
    panel = heldout_panel(evals, {"parent": {"b": {"value": 4.0}}, "other": {}})
    assert panel
    assert [(chart.title, chart.legend) for chart in panel.charts] == [
        ("a", [("c0", "value", "0.400")]),
        ("b", [("c0", "value", "3.000"), ("cn", "parent", "4.000")]),
    ]


def test_outcome_of_a_result_with_a_reference() -> None:
    def triple(value: float) -> dict[str, float]:
        return {"value": value, "low": value - 0.1, "high": value + 0.1}

    stored = {
        "before": {"a": triple(0.2)},
        "after": {"a": triple(0.6)},
        "difference": {"a": triple(0.4)},
        "references": {"clean parent": {"a": triple(0.7)}},
    }
    outcome = build_outcome({"eval": stored}, [])
    assert outcome
    assert outcome.columns == ["before", "after", "clean parent"]
    row = outcome.rows[0]
    assert [(cell.value, cell.interval) for cell in row.cells] == [
        ("0.200", "[0.100, 0.300]"),
        ("0.600", "[0.500, 0.700]"),
        ("0.700", "[0.600, 0.800]"),
    ]
    assert (row.difference.value, row.difference.interval, row.clear) == ("+0.400", "[+0.300, +0.500]", True)
    assert row.plot.count("<circle") == 2


def test_outcome_without_a_result() -> None:
    one = build_outcome({}, [(0, {"a": 0.5})])
    assert one
    assert (one.columns, one.lead) == (["after"], "The only evaluation, at step 0.")
    assert build_outcome({}, []) is None
    assert build_outcome({"eval": {"before": {}, "after": {}}}, []) is None


def test_every_logged_metric_has_a_chart() -> None:
    rows = [
        (1, {f"{name}": 0.5 for name in ("x", "reward/a/b/c", "parse/odd", "time/step/x", "learner/new")})
    ]
    titles = [chart.title for panel in train_panels(rows) for chart in panel.charts]
    assert {"x", "reward/a/b/c", "parse/odd", "learner/new"} <= set(titles)


def test_one_task_needs_no_chart_by_task() -> None:
    titles = [
        chart.title
        for panel in train_panels([(1, {"reward/total": 0.5, "reward/rec/total": 0.5})])
        for chart in panel.charts
    ]
    assert titles == ["Reward and its terms"]


def test_headlines_come_first_and_by_benchmark() -> None:
    names = [
        "greedy/acc50",
        "greedy/iou",
        "greedy/parse/ok_frac",
        "greedy/reward/iou",
        "sampled/iou",
        "sampled/pass@4",
    ]
    assert split(names) == (
        ["greedy/iou", "greedy/acc50", "sampled/iou", "sampled/pass@4"],
        ["greedy/parse/ok_frac", "greedy/reward/iou"],
    )
    assert split(["b", "a"]) == (["b", "a"], [])
    assert split([]) == ([], [])


def test_metrics_that_are_not_headlines_are_kept_apart() -> None:
    metrics = {"greedy/iou": 0.5, "greedy/parse/ok_frac": 0.9}
    outcome = build_outcome({"eval": {"before": metrics, "after": metrics}}, [])
    assert outcome
    assert [row.metric for row in outcome.rows] == ["greedy/iou"]
    assert [row.metric for row in outcome.rest] == ["greedy/parse/ok_frac"]
    panel = heldout_panel([(0, metrics)], {})
    assert panel
    assert ([chart.title for chart in panel.rest], panel.rest_title) == (
        ["greedy/parse/ok_frac"],
        "1 more metric",
    )
