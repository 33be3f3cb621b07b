"""Held-out metrics over the steps, with their intervals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from groundrl.reporting.curves import Chart, line_chart
from groundrl.reporting.headlines import split
from groundrl.reporting.panels import Panel
from groundrl.reporting.series import Series
from groundrl.tracking.numbers import bounds

EvalRows = Sequence[tuple[int, Mapping[str, Any]]]
References = Mapping[str, Mapping[str, Any]]


def heldout_panel(evals: EvalRows, references: References) -> Panel | None:
    """One chart a metric: the value with its interval as a band, references as level lines.

    None without evaluations.
    """
    names = list(dict.fromkeys(name for _, metrics in evals for name in metrics))
    main, rest = ([_chart(name, evals, references) for name in part] for part in split(names))
    charts = [chart for chart in main if chart]
    more = [chart for chart in rest if chart]
    if not charts and not more:
        return None
    lead = "Bands are the confidence intervals, the dashed line is the first evaluation."
    return Panel(
        title="Held-out metrics",
        charts=charts,
        lead=lead,
        rest=more,
        rest_title=f"{len(more)} more metric{'' if len(more) == 1 else 's'}",
    )


def _chart(name: str, evals: EvalRows, references: References) -> Chart | None:
    points = [(step, bounds(metrics[name])) for step, metrics in evals if name in metrics]
    known = [(float(step), value, (low, high)) for step, (value, low, high) in points if value is not None]
    if not known:
        return None
    xs, ys, band = zip(*known, strict=True)
    levels = [(label, bounds(metrics.get(name))[0]) for label, metrics in references.items()]
    lines = [
        Series(name=label, xs=[xs[0], xs[-1]], ys=[level, level], neutral=True)
        for label, level in levels
        if level is not None
    ]
    return line_chart(name, "held out", [Series(name="value", xs=xs, ys=ys, band=band), *lines])
