"""Charts over training steps as inline SVG: lines, lines with intervals, stacked areas."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from groundrl.reporting.series import Series, smooth, thin
from groundrl.reporting.svg import Scale, coordinate, domain, tag, tick_label, ticks
from groundrl.tracking.numbers import number

WIDTH, HEIGHT = 420, 216
LEFT, RIGHT, TOP, BOTTOM = 48, 8, 8, 34
PALETTE_SIZE = 8

Point = tuple[float, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Chart:
    """A drawn chart for the template: `legend` is (colour class, name, last value as text)."""

    title: str
    unit: str
    svg: Markup
    legend: list[tuple[str, str, str]]
    data: str
    note: str = ""


def line_chart(title: str, unit: str, series: Sequence[Series]) -> Chart:
    """Lines over steps; every step is faint and a running mean strong where there are many points."""
    drawn = [thin(entry) for entry in series]
    values = [y for entry in drawn for y in entry.ys if y is not None]
    values += [edge for entry in drawn for pair in entry.band for edge in pair if edge is not None]
    low, high, cut = domain(values)
    x, y = _scales(drawn, low, high)
    marks: list[Markup] = []
    for colour, entry in zip(_colours(drawn), drawn, strict=True):
        marks += _line(entry, colour, x, y)
    note = f"axis cut: one value is {number(cut)}" if cut is not None else ""
    return _chart(title, unit, drawn, marks, x, y, note)


def stacked_chart(title: str, unit: str, series: Sequence[Series]) -> Chart:
    """Areas on top of each other, the first at the bottom; all series must share their steps."""
    drawn = [thin(entry) for entry in series]
    smoothed = [smooth(entry) or entry for entry in drawn]
    tops: list[list[float]] = []
    total = [0.0] * len(smoothed[0].xs)
    for entry in smoothed:
        total = [base + max(0.0, y or 0.0) for base, y in zip(total, entry.ys, strict=True)]
        tops.append(total)
    high = max(total) or 1.0
    x, y = _scales(drawn, 0.0, high if high <= 1.0 and high > 0.98 else high * 1.06)
    marks: list[Markup] = []
    lower = [0.0] * len(total)
    for colour, entry, upper in zip(_colours(drawn), smoothed, tops, strict=True):
        edge = [(x(step), y(value)) for step, value in zip(entry.xs, upper, strict=True)]
        floor = [(x(step), y(value)) for step, value in zip(entry.xs, lower, strict=True)]
        marks.append(tag("path", class_=f"area {colour}", d=_path([*edge, *reversed(floor)]) + "Z"))
        lower = upper
    return _chart(title, unit, drawn, marks, x, y, "")


def share_bar(parts: Sequence[tuple[str, float]]) -> list[tuple[str, str, float, float]]:
    """(colour class, name, start, width) of each part in percent of the whole bar."""
    whole = sum(value for _, value in parts) or 1.0
    bars: list[tuple[str, str, float, float]] = []
    start = 0.0
    for index, (name, value) in enumerate(parts):
        colour = "cn" if name == "other" else f"c{index % PALETTE_SIZE}"
        bars.append((colour, name, 100 * start / whole, 100 * value / whole))
        start += value
    return bars


def _chart(
    title: str, unit: str, series: Sequence[Series], marks: list[Markup], x: Scale, y: Scale, note: str
) -> Chart:
    clip = tag("svg", *marks, x=LEFT, y=TOP, width=x.end - LEFT, height=y.start - TOP, viewBox=_inner(x, y))
    cursor = tag("line", class_="cursor", y1=TOP, y2=y.start, x1=LEFT, x2=LEFT, hidden=True)
    svg = tag(
        "svg",
        *_axes(x, y),
        clip,
        cursor,
        viewBox=f"0 0 {WIDTH} {HEIGHT}",
        role="img",
        aria_label=f"{title} over training steps",
    )
    legend = [
        (colour, entry.name, number(entry.last))
        for colour, entry in zip(_colours(series), series, strict=True)
    ]
    data = {
        "left": x.start,
        "right": x.end,
        "low": x.low,
        "high": x.high,
        "series": [{"x": list(entry.xs), "y": [_short(value) for value in entry.ys]} for entry in series],
    }
    return Chart(
        title=title,
        unit=unit,
        svg=svg,
        legend=legend,
        data=json.dumps(data, separators=(",", ":")),
        note=note,
    )


def _line(series: Series, colour: str, x: Scale, y: Scale) -> list[Markup]:
    marks: list[Markup] = []
    if series.band:
        known = [(step, a, b) for step, (a, b) in zip(series.xs, series.band, strict=True)]
        edges = [(x(step), y(a), y(b)) for step, a, b in known if a is not None and b is not None]
        if edges:
            outline = [(px, low) for px, low, _ in edges] + [(px, high) for px, _, high in reversed(edges)]
            marks.append(tag("path", class_=f"band {colour}", d=_path(outline) + "Z"))
        first = next((value for value in series.ys if value is not None), None)
        if first is not None:
            marks.append(tag("line", class_="start", x1=x.start, x2=x.end, y1=y(first), y2=y(first)))
    mean = smooth(series)
    marks.append(_polyline(series, f"line {colour}{' faint' if mean else ''}", x, y))
    if mean:
        marks.append(_polyline(mean, f"line {colour}", x, y))
    if len(series.xs) <= 30 and not series.neutral:
        points = [
            (x(step), y(value)) for step, value in zip(series.xs, series.ys, strict=True) if value is not None
        ]
        marks += [tag("circle", class_=f"dot {colour}", cx=px, cy=py, r=2.6) for px, py in points]
    return marks


def _polyline(series: Series, classes: str, x: Scale, y: Scale) -> Markup:
    """One path; it is interrupted where a value is missing."""
    pieces: list[list[Point]] = [[]]
    for step, value in zip(series.xs, series.ys, strict=True):
        if value is None:
            pieces.append([])
        else:
            pieces[-1].append((x(step), y(value)))
    return tag("path", class_=classes, d="".join(_path(piece) for piece in pieces if piece))


def _axes(x: Scale, y: Scale) -> list[Markup]:
    marks: list[Markup] = []
    y_ticks = ticks(y.low, y.high)
    gap = y_ticks[1] - y_ticks[0] if len(y_ticks) > 1 else 0.0
    for value in y_ticks:
        line = tag("line", class_="grid", x1=LEFT, x2=x.end, y1=y(value), y2=y(value))
        label = tag(
            "text", tick_label(value, gap), class_="tick", x=LEFT - 6, y=y(value) + 4, text_anchor="end"
        )
        marks += [line, label]
    for value in ticks(x.low, x.high, 5):
        if value != int(value):
            continue
        marks.append(
            tag("text", tick_label(value, 1), class_="tick", x=x(value), y=y.start + 14, text_anchor="middle")
        )
    marks.append(tag("line", class_="axis", x1=LEFT, x2=x.end, y1=y.start, y2=y.start))
    marks.append(tag("text", "step", class_="tick", x=x.end, y=HEIGHT - 4, text_anchor="end"))
    return marks


def _scales(series: Sequence[Series], low: float, high: float) -> tuple[Scale, Scale]:
    steps = [step for entry in series for step in entry.xs]
    first, last = min(steps, default=0.0), max(steps, default=1.0)
    if first == last:
        first, last = first - 1, last + 1
    x = Scale(low=first, high=last, start=LEFT, end=WIDTH - RIGHT)
    return x, Scale(low=low, high=high, start=HEIGHT - BOTTOM, end=TOP)


def _inner(x: Scale, y: Scale) -> str:
    return f"{LEFT} {TOP} {coordinate(x.end - LEFT)} {coordinate(y.start - TOP)}"


def _colours(series: Sequence[Series]) -> list[str]:
    return ["cn" if entry.neutral else f"c{index % PALETTE_SIZE}" for index, entry in enumerate(series)]


def _path(points: Sequence[Point]) -> str:
    if len(points) == 1:
        px, py = points[0]
        return f"M{coordinate(px)} {coordinate(py)}h0"
    return "M" + "L".join(f"{coordinate(px)} {coordinate(py)}" for px, py in points)


def _short(value: float | None) -> float | None:
    return None if value is None else float(f"{value:.4g}")
