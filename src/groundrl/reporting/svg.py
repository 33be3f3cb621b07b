"""Writing SVG elements, and the scales and ticks of a chart."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup, escape


def tag(name: str, *children: str, **attributes: str | float | bool | None) -> Markup:
    """An element as safe markup; children that are plain text and all attribute values are escaped.

    `class_` stands for class, underscores for hyphens; None leaves an attribute out, True writes it bare.
    """
    parts = [Markup("<") + Markup(name)]
    for key, value in attributes.items():
        if value is None or value is False:
            continue
        attribute = Markup(key.rstrip("_").replace("_", "-"))
        text = "" if value is True else value if isinstance(value, str) else coordinate(value)
        parts.append(
            Markup(" {}").format(attribute) if value is True else Markup(' {}="{}"').format(attribute, text)
        )
    inner = Markup("").join(escape(child) for child in children)
    return Markup("").join(parts) + Markup(">") + inner + Markup("</{}>").format(Markup(name))


def coordinate(value: float) -> str:
    """A number for an attribute, to a tenth of a unit."""
    return f"{value:.1f}".removesuffix(".0")


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """Maps [low, high] linearly to [start, end]."""

    low: float
    high: float
    start: float
    end: float

    def __call__(self, value: float) -> float:
        span = self.high - self.low or 1.0
        return self.start + (value - self.low) / span * (self.end - self.start)


def ticks(low: float, high: float, count: int = 4) -> list[float]:
    """Round numbers (1, 2, 2.5 or 5 times a power of ten) inside [low, high], about `count` of them."""
    span = high - low
    if not span > 0:
        return [low]
    rough = span / count
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(power * factor for factor in (1, 2, 2.5, 5, 10) if power * factor >= rough * 0.999)
    first = math.ceil(low / step - 1e-9)
    last = math.floor(high / step + 1e-9)
    return [index * step for index in range(first, last + 1)]


def tick_label(value: float, step: float) -> str:
    """`value` with the decimals that ticks `step` apart need: `0.25`, `12k`, `1e-5`."""
    if not value:
        return "0"
    size = max(abs(value), step)
    if size >= 1e4:
        divisor, suffix = (1e6, "M") if size >= 1e6 else (1e3, "k")
        return f"{value / divisor:.4g}{suffix}"
    if size < 1e-3:
        mantissa, _, exponent = f"{value:.1e}".partition("e")
        return f"{mantissa.removesuffix('.0')}e{int(exponent)}"
    decimals = max(0, -math.floor(math.log10(step) + 1e-9)) if step > 0 else 0
    if round(step, decimals) != round(step, decimals + 1):
        decimals += 1
    return f"{value:.{decimals}f}"


def domain(values: Sequence[float]) -> tuple[float, float, float | None]:
    """(low, high, cut) of an axis for `values`.

    Shares get [0, 1] when they use most of it; positive values start at 0 unless they vary little around a
    large level. A few values far off (over four times the span of the central 96 %) are left out of the
    range: `cut` is then the farthest of them, else None.
    """
    ordered = sorted(values)
    if not ordered:
        return 0.0, 1.0, None
    low, high = ordered[0], ordered[-1]
    cut = None
    if len(ordered) >= 25:
        inner_low, inner_high = ordered[len(ordered) // 50], ordered[-1 - len(ordered) // 50]
        span = inner_high - inner_low
        if span > 0 and high - low > 4 * span:
            cut = high if high - inner_high > inner_low - low else low
            low, high = max(low, inner_low - span / 4), min(high, inner_high + span / 4)
    if low >= 0 and high <= 1 and high > 0.55:
        return 0.0, 1.0, cut
    if low >= 0 and low < 0.6 * high:
        low = 0.0
    if high == low:
        pad = abs(high) * 0.1 or 1.0
        return (0.0 if low >= 0 else low - pad), high + pad, cut
    pad = 0.06 * (high - low)
    return (low if low == 0 else low - pad), (high if high == 0 else high + pad), cut
