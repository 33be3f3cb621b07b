"""Which held-out metrics are shown at once, and in which order; the others are a click away."""

from __future__ import annotations

from collections.abc import Iterable

_RANK = (
    "overall",
    "mean_ap",
    "iou",
    "acc50",
    "ap",
    "ap50",
    "gp50",
    "gr50",
    "image_ap",
    "accuracy",
    "point_f1",
    "pass@",
    "best@",
    "format",
    "boxes_mean",
    "tokens_mean",
)


def split(names: Iterable[str]) -> tuple[list[str], list[str]]:
    """(main, rest) of metric names such as `greedy/iou` and `greedy/parse/ok_frac`.

    Main are the ranked ones directly under a benchmark's prefix, benchmark by benchmark, the best known
    first. If none is ranked, all are main, in the order given.
    """
    known = list(names)
    prefixes = list(dict.fromkeys(name.partition("/")[0] for name in known))
    ranked = [
        (prefixes.index(name.partition("/")[0]), rank, name)
        for name in known
        if (rank := _rank(name)) is not None
    ]
    main = [name for *_, name in sorted(ranked)]
    return (main, [name for name in known if name not in main]) if main else (known, [])


def _rank(name: str) -> int | None:
    own = name.partition("/")[2]
    for index, key in enumerate(_RANK):
        if own == key or (key.endswith("@") and own.startswith(key)):
            return index
    return None
