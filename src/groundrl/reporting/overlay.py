"""Truth and predicted boxes over an image, as SVG in the image's own pixels."""

from __future__ import annotations

from collections.abc import Sequence

from markupsafe import Markup

from groundrl.reporting.records import ShownBox
from groundrl.reporting.svg import tag

MAX_BOXES = 60
_LABEL_CHARS = 24
_CHARACTER = 0.58
"""Mean width of a character, in font sizes."""


def overlay(
    size: tuple[int, int], truth: Sequence[ShownBox], predicted: Sequence[ShownBox], *, labels: bool
) -> Markup:
    """An SVG to lie on an image of `size` (width, height): truth solid, predictions dashed.

    At most 60 boxes of each kind are drawn. With `labels` the boxes carry their labels, or "truth" and
    "answer" where they have none.
    """
    drawn = [("truth", box) for box in truth[:MAX_BOXES]] + [("pred", box) for box in predicted[:MAX_BOXES]]
    marks = [_box(box, "halo") for _, box in drawn] + [_box(box, kind) for kind, box in drawn]
    if labels:
        marks += [_label(box, kind, size) for kind, box in drawn]
    return tag("svg", *marks, class_="boxes", viewBox=f"0 0 {size[0]} {size[1]}", preserveAspectRatio="none")


def _box(box: ShownBox, kind: str) -> Markup:
    x1, y1, x2, y2 = box.xyxy
    return tag("rect", class_=kind, x=min(x1, x2), y=min(y1, y2), width=abs(x2 - x1), height=abs(y2 - y1))


def _label(box: ShownBox, kind: str, size: tuple[int, int]) -> Markup:
    """Truth is named above its box, a prediction below, both kept inside the image."""
    shown = box.label or ("truth" if kind == "truth" else "answer")
    shown = shown if len(shown) <= _LABEL_CHARS else f"{shown[: _LABEL_CHARS - 1]}…"
    unit = max(size) / 100
    font = 4.8 * unit
    x1, y1, x2, y2 = box.xyxy
    y = min(y1, y2) - 1.4 * unit if kind == "truth" else max(y1, y2) + 5 * unit
    y = min(max(y, font + unit), size[1] - 1.2 * unit)
    x = min(max(min(x1, x2), unit), size[0] - 2 * unit)
    fits = size[0] - x > _CHARACTER * font * len(shown)
    return tag(
        "text",
        shown,
        class_=f"tag-{kind}",
        x=x if fits else size[0] - unit,
        y=y,
        font_size=font,
        stroke_width=1.1 * unit,
        text_anchor="start" if fits else "end",
    )
