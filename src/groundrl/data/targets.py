"""The list of categories that a detection sample asks for."""

from __future__ import annotations

from collections.abc import Iterable

from groundrl.geometry.labels import normalise_label


def merge_targets(targets: Iterable[str]) -> tuple[tuple[str, ...], int]:
    """The targets that differ under the label normalisation, each as first written, and how many were merged.

    "dog" and "Dog " are one category: asked for twice, a perfect answer would name it once.
    """
    given = list(targets)
    kept: dict[str, str] = {}
    for target in given:
        kept.setdefault(normalise_label(target), target)
    return tuple(kept.values()), len(given) - len(kept)
