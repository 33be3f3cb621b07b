"""Plots of an experiment: curves with a band over seeds, scatter, bars; equal data give equal SVG.

The bytes depend on the version of matplotlib, so CI does not compare them.
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Mapping
from typing import Any

from groundrl.reporting.experiments.layout import BENCHMARK, Figure, Row
from groundrl.reporting.experiments.values import run_value
from groundrl.reporting.seeds import seed_mean
from groundrl.reporting.tables.runs import RowRuns
from groundrl.reporting.tables.table import Table

SIZE = (6.4, 4.0)
_SETTINGS: dict[Any, Any] = {
    "svg.hashsalt": "groundrl",
    "svg.fonttype": "none",
    "axes.spines.top": False,
    "axes.spines.right": False,
}

Series = dict[int, tuple[float, float, float]]
"""Step to mean, least and greatest value over seeds."""


def figure_name(figure: Figure) -> str:
    """`curve-reward-total.svg`."""
    metrics = [figure.y] if figure.x is None else [figure.x, figure.y]
    words = re.sub(r"[^A-Za-z0-9]+", "-", "-".join(metrics)).strip("-")
    return f"{figure.kind}-{words}.svg"


def draw_figures(table: Table) -> dict[str, bytes]:
    """File name to SVG of each figure for which there are results."""
    drawn = {figure_name(figure): _draw(figure, table) for figure in table.layout.figures}
    return {name: content for name, content in drawn.items() if content is not None}


def has_results(figure: Figure, table: Table) -> bool:
    """Whether there is anything to draw."""
    rows = table.layout.rows
    if figure.kind == "curve":
        return any(band(table.runs[row.label], _metric(figure.y, row)) for row in rows)
    names = [figure.y] if figure.x is None else [figure.y, figure.x]
    return any(all(_points(table.runs[row.label], row, name) for name in names) for row in rows)


def band(runs: RowRuns, metric: str) -> Series:
    """A curve of a row: mean, minimum and maximum over its seeds at the steps that all of them have."""
    curves = [dict(run.curves.get(metric, [])) for run in runs.runs.values()]
    curves = [curve for curve in curves if curve]
    shared = set.intersection(*(set(curve) for curve in curves)) if curves else set[int]()
    at = {step: [curve[step] for curve in curves] for step in sorted(shared)}
    return {step: (seed_mean(values).value, min(values), max(values)) for step, values in at.items()}


def _draw(figure: Figure, table: Table) -> bytes | None:
    if not has_results(figure, table):
        return None
    draw: Mapping[str, Callable[[Any, Figure, Table], None]] = {
        "curve": _curves,
        "scatter": _scatter,
        "bar": _bars,
    }
    import matplotlib as mpl
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure as Canvas

    with mpl.rc_context(_SETTINGS):
        canvas = Canvas(figsize=SIZE, layout="constrained")
        FigureCanvasSVG(canvas)
        axes = canvas.subplots()
        axes.set_title(figure.title or _title(figure), fontsize="medium")
        draw[figure.kind](axes, figure, table)
        out = io.BytesIO()
        canvas.savefig(out, format="svg", metadata={"Date": None, "Creator": None})
    return out.getvalue()


def _curves(axes: Any, figure: Figure, table: Table) -> None:
    for index, row in enumerate(table.layout.rows):
        line = band(table.runs[row.label], _metric(figure.y, row))
        if not line:
            continue
        colour, steps = f"C{index % 10}", list(line)
        means, lows, highs = zip(*line.values(), strict=True)
        axes.plot(steps, means, color=colour, label=row.label, linewidth=1.5)
        axes.fill_between(steps, lows, highs, color=colour, alpha=0.2, linewidth=0)
    axes.set_xlabel("step")
    axes.set_ylabel(figure.y)
    axes.legend(frameon=False, fontsize="small", title="mean, range over seeds", title_fontsize="small")


def _scatter(axes: Any, figure: Figure, table: Table) -> None:
    for index, row in enumerate(table.layout.rows):
        runs = table.runs[row.label]
        across, up = _points(runs, row, figure.x or ""), _points(runs, row, figure.y)
        both = sorted(set(across) & set(up))
        if both:
            colour = f"C{index % 10}"
            axes.scatter([across[s] for s in both], [up[s] for s in both], s=14, color=colour, alpha=0.4)
            mean = (seed_mean([across[s] for s in both]).value, seed_mean([up[s] for s in both]).value)
            axes.scatter([mean[0]], [mean[1]], s=60, color=colour, label=row.label)
    axes.set_xlabel(figure.x)
    axes.set_ylabel(figure.y)
    axes.legend(frameon=False, fontsize="small", title="mean (large), seeds (small)", title_fontsize="small")


def _bars(axes: Any, figure: Figure, table: Table) -> None:
    labels: list[str] = []
    for row in table.layout.rows:
        points = list(_points(table.runs[row.label], row, figure.y).values())
        if points:
            mean = seed_mean(points).value
            # the mean of equal values may differ from them by rounding
            span = [[max(0.0, mean - min(points))], [max(0.0, max(points) - mean)]]
            axes.bar(len(labels), mean, yerr=span, capsize=3, color=f"C{table.layout.rows.index(row) % 10}")
            labels.append(row.label)
    axes.set_xticks(range(len(labels)), labels, rotation=20, ha="right", fontsize="small")
    axes.set_ylabel(f"{figure.y} (range over seeds)")


def _points(runs: RowRuns, row: Row, metric: str) -> dict[int, float]:
    """The metric by seed."""
    found = {seed: run_value(run, _metric(metric, row), when=row.when) for seed, run in runs.runs.items()}
    return {seed: value.value for seed, value in found.items() if value is not None}


def _metric(name: str, row: Row) -> str:
    return name.replace(BENCHMARK, row.benchmark or BENCHMARK)


def _title(figure: Figure) -> str:
    return f"{figure.y} by {figure.x}" if figure.x else figure.y
