"""Which metric is drawn in which chart."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from groundrl.reporting.curves import Chart, line_chart, share_bar, stacked_chart
from groundrl.reporting.series import Series, collect
from groundrl.tracking.numbers import bounds, duration
from groundrl.tracking.step_line import reward_terms

Rows = Sequence[tuple[int, Mapping[str, float | None]]]
EvalRows = Sequence[tuple[int, Mapping[str, Any]]]

_READ = ("ok", "none")
"""Parse states that are no failures: an answer, and a well-formed "nothing there"."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Panel:
    """A headed group of charts; `bar` is the share of time by stage, in percent."""

    title: str
    charts: list[Chart]
    lead: str = ""
    bar: Sequence[tuple[str, str, float, float]] = ()


def train_panels(rows: Rows) -> list[Panel]:
    """The charts of the training metrics that are there; a chart without data is left out."""
    names = _names(rows)
    candidates = [
        Panel(title="Reward", charts=_present(_reward_charts(rows, names))),
        Panel(title="Answers", charts=_present(_answer_charts(rows, names))),
        Panel(title="Optimisation", charts=_present(_learner_charts(rows))),
        _cost_panel(rows, names),
    ]
    return [panel for panel in candidates if panel.charts]


def eval_panel(evals: EvalRows) -> Panel | None:
    """One chart a held-out metric, its interval as a band; None without evaluations."""
    names = list(dict.fromkeys(name for _, metrics in evals for name in metrics))
    charts: list[Chart] = []
    for name in names:
        points = [(step, bounds(metrics[name])) for step, metrics in evals if name in metrics]
        known = [
            (float(step), value, (low, high)) for step, (value, low, high) in points if value is not None
        ]
        if not known:
            continue
        xs, ys, band = zip(*known, strict=True)
        charts.append(line_chart(name, "held out", [Series(name="value", xs=xs, ys=ys, band=band)]))
    lead = "Bands are the confidence intervals, the dashed line is the first evaluation."
    return Panel(title="Held-out metrics", charts=charts, lead=lead) if charts else None


def _reward_charts(rows: Rows, names: Sequence[str]) -> Iterable[Chart | None]:
    terms = reward_terms(dict.fromkeys(names))
    yield _lines(
        rows,
        "Reward and its terms",
        "mean per rollout",
        {"reward/total": "total", **{f"reward/{t}": t for t in terms}},
    )
    tasks = [
        name
        for name in names
        if name.startswith("reward/") and name.endswith("/total") and name.count("/") == 2
    ]
    yield _lines(rows, "Reward by task", "mean per rollout", {name: name.split("/")[1] for name in tasks})
    yield _lines(
        rows,
        "Groups without signal",
        "share of groups",
        {"group/zero_spread_frac": "all rewards equal"},
    )


def _answer_charts(rows: Rows, names: Sequence[str]) -> Iterable[Chart | None]:
    yield _lines(
        rows, "Response length", "tokens", {"rollout/tokens_mean": "mean", "rollout/tokens_max": "max"}
    )
    kinds = [name.removeprefix("parse/").removesuffix("_frac") for name in names if name.startswith("parse/")]
    failures = {f"parse/{kind}_frac": kind for kind in kinds if kind not in _READ}
    yield _stacked(rows, "Answers that could not be read", "share of rollouts", failures)
    yield _lines(
        rows, "Cut off at the length limit", "share of rollouts", {"rollout/truncated_frac": "truncated"}
    )
    yield _lines(rows, "Boxes per answer", "boxes", {"rollout/boxes_mean": "mean"})


def _learner_charts(rows: Rows) -> Iterable[Chart | None]:
    yield _lines(rows, "Entropy", "nats per token", {"learner/entropy": "entropy"})
    kl = {"learner/kl_ref": "to reference", "learner/approx_kl": "to old policy"}
    yield _lines(rows, "KL divergence", "nats per token", kl)
    yield _lines(rows, "Sampler against learner", "KL, nats per token", {"learner/mismatch_kl": "mean"})
    yield _lines(rows, "Largest log-prob mismatch", "nats", {"learner/mismatch_max": "max"})
    clip = {"learner/clip_low_frac": "low", "learner/clip_high_frac": "high"}
    yield _lines(rows, "Clipped tokens", "share of tokens", clip)
    yield _lines(rows, "Loss", "value minimised", {"learner/loss": "loss"})
    yield _lines(rows, "Gradient norm", "before clipping", {"learner/grad_norm": "norm"})
    yield _lines(rows, "Learning rate", "", {"learner/lr": "rate"})


def _cost_panel(rows: Rows, names: Sequence[str]) -> Panel:
    stages = _stage_series(rows, names)
    sums = [(entry.name, sum(y or 0.0 for y in entry.ys)) for entry in stages]
    total = sum(value for _, value in sums)
    charts = _present(
        [
            stacked_chart("Time per step by stage", "s", stages) if stages else None,
            _lines(rows, "Throughput", "tokens/s", {"perf/tokens_per_s": "sampled and trained"}),
            _lines(rows, "Memory", "MB", {"perf/memory_mb": "peak"}),
        ]
    )
    lead = f"{duration(total)} in {len(rows)} training steps, evaluations not counted." if total else ""
    return Panel(title="Time and memory", charts=charts, lead=lead, bar=share_bar(sums) if total else ())


def _stage_series(rows: Rows, names: Sequence[str]) -> list[Series]:
    """Seconds by stage on common steps, largest first, and what the stages leave of `time/step`."""
    stages = [name for name in names if name.startswith("time/") and name != "time/step"]
    if not rows or not (stages or "time/step" in names):
        return []
    xs = [float(step) for step, _ in rows]
    series = [
        Series(name=name.removeprefix("time/"), xs=xs, ys=[values.get(name) or 0.0 for _, values in rows])
        for name in stages
    ]
    series.sort(key=lambda entry: -sum(y or 0.0 for y in entry.ys))
    rest = [
        max(0.0, (values.get("time/step") or 0.0) - sum(values.get(name) or 0.0 for name in stages))
        for _, values in rows
    ]
    if sum(rest) > 0:
        series.append(Series(name="other", xs=xs, ys=rest, neutral=True))
    return series


def _lines(rows: Rows, title: str, unit: str, names: Mapping[str, str]) -> Chart | None:
    series = collect(rows, names)
    return line_chart(title, unit, series) if series else None


def _stacked(rows: Rows, title: str, unit: str, names: Mapping[str, str]) -> Chart | None:
    xs = [float(step) for step, _ in rows]
    series = [
        Series(name=shown, xs=xs, ys=[values.get(metric) or 0.0 for _, values in rows])
        for metric, shown in names.items()
    ]
    series.sort(key=lambda entry: -sum(y or 0.0 for y in entry.ys))
    return stacked_chart(title, unit, series) if series else None


def _names(rows: Rows) -> list[str]:
    return list(dict.fromkeys(name for _, metrics in rows for name in metrics))


def _present(charts: Iterable[Chart | None]) -> list[Chart]:
    return [chart for chart in charts if chart is not None]
