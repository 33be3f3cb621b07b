"""Which training metric is drawn in which chart."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from groundrl.reporting.curves import Chart, line_chart, share_bar, stacked_chart
from groundrl.reporting.series import Series, collect
from groundrl.tracking.numbers import duration
from groundrl.tracking.step_line import reward_terms

Rows = Sequence[tuple[int, Mapping[str, float | None]]]

_READ = ("ok", "none")
"""Parse states that are no failures: an answer, and a well-formed "nothing there"."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Panel:
    """A headed group of charts.

    `rest` are charts to open on demand, under the text `rest_title`; `bar` is the share of time by stage as
    (colour class, name, start, width), in percent.
    """

    title: str
    charts: list[Chart]
    lead: str = ""
    bar: Sequence[tuple[str, str, float, float]] = ()
    rest: list[Chart] = field(default_factory=list[Chart])
    rest_title: str = ""


def train_panels(rows: Rows) -> list[Panel]:
    """The charts of all training metrics that are there; what has no chart of its own comes last."""
    drawing = _Drawing(rows)
    panels = [_reward(drawing), _answers(drawing), _learner(drawing), _cost(drawing)]
    left = [drawing.lines(name, "", {name: "value"}) for name in drawing.left()]
    panels.append(_panel("Other metrics", left))
    return [panel for panel in panels if panel.charts]


class _Drawing:
    """Draws charts of `rows` and remembers which metrics were drawn."""

    def __init__(self, rows: Rows) -> None:
        self.rows = rows
        self.names = list(dict.fromkeys(name for _, metrics in rows for name in metrics))
        self._drawn: set[str] = set()

    def lines(self, title: str, unit: str, names: Mapping[str, str]) -> Chart | None:
        """A line for each of `names` (metric to the name shown) that has a value; None if none has."""
        self._drawn.update(names)
        series = collect(self.rows, names)
        return line_chart(title, unit, series) if series else None

    def stacked(
        self, title: str, unit: str, names: Mapping[str, str], rest: Series | None = None
    ) -> Chart | None:
        """Areas on each other, the largest at the bottom; `rest` on top."""
        series = self.filled(names)
        return stacked_chart(title, unit, [*series, *([rest] if rest else [])]) if series else None

    def filled(self, names: Mapping[str, str]) -> list[Series]:
        """Series over all steps with 0 where a metric was not logged, the largest first."""
        self._drawn.update(names)
        xs = [float(step) for step, _ in self.rows]
        series = [
            Series(name=shown, xs=xs, ys=[values.get(metric) or 0.0 for _, values in self.rows])
            for metric, shown in names.items()
        ]
        return sorted(series, key=_total, reverse=True)

    def named(self, prefix: str, suffix: str, wanted: Callable[[str], bool]) -> dict[str, str]:
        """Metrics `prefix<middle>suffix` to their middle, those with a wanted one."""
        found = {
            name: name.removeprefix(prefix).removesuffix(suffix)
            for name in self.names
            if name.startswith(prefix) and name.endswith(suffix) and len(name) > len(prefix + suffix)
        }
        return {name: middle for name, middle in found.items() if wanted(middle)}

    def seen(self, *names: str) -> None:
        self._drawn.update(names)

    def left(self) -> list[str]:
        return [name for name in self.names if name not in self._drawn]


def _reward(drawing: _Drawing) -> Panel:
    terms = {f"reward/{term}": term for term in reward_terms(dict.fromkeys(drawing.names))}
    tasks = drawing.named("reward/", "/total", bool)
    drawing.seen(*tasks)
    return _panel(
        "Reward",
        [
            drawing.lines("Reward and its terms", "mean per rollout", {"reward/total": "total", **terms}),
            drawing.lines("Reward by task", "mean per rollout", tasks if len(tasks) > 1 else {}),
            drawing.lines("Spread of the reward", "standard deviation", {"group/reward_std": "rollouts"}),
            drawing.lines(
                "Groups without signal", "share of groups", {"group/zero_spread_frac": "all rewards equal"}
            ),
            drawing.lines(
                "Rollouts without reward", "share of rollouts", {"group/missing_frac": "a term is missing"}
            ),
        ],
    )


def _answers(drawing: _Drawing) -> Panel:
    lengths = {"rollout/tokens_mean": "mean", "rollout/tokens_max": "max"}
    failures = drawing.named("parse/", "_frac", lambda state: state not in _READ)
    drawing.seen("parse/ok_frac", "parse/none_frac", "rollout/truncated_length_frac")
    ended = drawing.named("rollout/", "_frac", lambda status: status != "truncated_length")
    return _panel(
        "Answers",
        [
            drawing.lines("Response length", "tokens", lengths),
            drawing.stacked("Answers that could not be read", "share of rollouts", failures),
            drawing.lines("Ended early", "share of rollouts", ended),
            drawing.lines("Boxes per answer", "boxes", {"rollout/boxes_mean": "mean"}),
            drawing.lines(
                "Boxes refused or clipped",
                "boxes per answer",
                {"parse/rejected_mean": "refused", "parse/clipped_mean": "clipped to the image"},
            ),
        ],
    )


def _learner(drawing: _Drawing) -> Panel:
    kl = {"learner/kl_ref": "to reference", "learner/approx_kl": "to old policy"}
    clip = {"learner/clip_low_frac": "low", "learner/clip_high_frac": "high"}
    return _panel(
        "Optimisation",
        [
            drawing.lines("Entropy", "nats per token", {"learner/entropy": "entropy"}),
            drawing.lines("KL divergence", "nats per token", kl),
            drawing.lines("Sampler against learner", "KL, nats per token", {"learner/mismatch_kl": "mean"}),
            drawing.lines("Largest log-prob mismatch", "nats", {"learner/mismatch_max": "max"}),
            drawing.lines("Clipped tokens", "share of tokens", clip),
            drawing.lines("Loss", "value minimised", {"learner/loss": "loss"}),
            drawing.lines("Gradient norm", "before clipping", {"learner/grad_norm": "norm"}),
            drawing.lines("Learning rate", "", {"learner/lr": "rate"}),
        ],
    )


def _cost(drawing: _Drawing) -> Panel:
    names = drawing.named("time/", "", lambda stage: stage != "step")
    drawing.seen("time/step")
    stages = drawing.filled(names)
    rest = _rest(drawing.rows, names)
    sums = [(series.name, _total(series)) for series in [*stages, *([rest] if rest else [])]]
    whole = sum(seconds for _, seconds in sums)
    panel = _panel(
        "Time and memory",
        [
            drawing.stacked("Time per step by stage", "s", names, rest),
            drawing.lines("Throughput", "tokens/s", {"perf/tokens_per_s": "tokens"}),
            drawing.lines("Memory", "MB", {"perf/memory_mb": "peak"}),
        ],
    )
    if not whole:
        return panel
    lead = f"{duration(whole)} in {len(drawing.rows)} training steps, evaluations not counted."
    return Panel(title=panel.title, charts=panel.charts, lead=lead, bar=share_bar(sums))


def _rest(rows: Rows, stages: Mapping[str, str]) -> Series | None:
    """What the stages leave of `time/step`."""
    ys = [
        max(0.0, (values.get("time/step") or 0.0) - sum(values.get(name) or 0.0 for name in stages))
        for _, values in rows
    ]
    return (
        Series(name="other", xs=[float(step) for step, _ in rows], ys=ys, neutral=True) if any(ys) else None
    )


def _panel(title: str, charts: Sequence[Chart | None]) -> Panel:
    return Panel(title=title, charts=[chart for chart in charts if chart is not None])


def _total(series: Series) -> float:
    return sum(y or 0.0 for y in series.ys)
