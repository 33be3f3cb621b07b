"""The points of a sweep: the same, in the same order, as the sampler of W&B makes of the file.

Parameters are taken in order of name. grid: all combinations, the last name changing fastest, values that
are the same number only once. random: for every point and parameter (fixed ones too) one uniform number in
[0, 1), which chooses among the n values with equal chance; with W&B's generator seeded alike, the points are
equal. Checked against the package `sweeps` 0.3.0 (tests/golden/wandb_points.json).
"""

from __future__ import annotations

import itertools
import math
import random
from typing import Any

import yaml

from groundrl.sweeping.sweep_file import Method, Sweep

Point = dict[str, Any]
"""A value for each parameter, in order of name."""


def points(sweep: Sweep, *, draw_seed: int = 0) -> list[Point]:
    """All points of a sweep. draw_seed: of the draws of a random one."""
    made = _grid(sweep) if sweep.method is Method.grid else _random(sweep, random.Random(draw_seed))
    return made if sweep.run_cap is None else made[: sweep.run_cap]


def word(name: str, value: Any) -> str:
    """`name=value` as the agent of W&B writes it for `${args_no_hyphens}`."""
    return f"{name}={value}"


def _grid(sweep: Sweep) -> list[Point]:
    names = sorted(sweep.parameters)
    choices = [{_same(value): value for value in sweep.parameters[name].values} for name in names]
    return [
        dict(zip(names, combination, strict=True))
        for combination in itertools.product(*(choice.values() for choice in choices))
    ]


def _random(sweep: Sweep, draws: random.Random) -> list[Point]:
    names = sorted(sweep.parameters)
    return [
        {name: _drawn(sweep.parameters[name].values, draws.uniform(0.0, 1.0)) for name in names}
        for _ in range(sweep.run_cap or 0)
    ]


def _drawn(values: tuple[Any, ...], chance: float) -> Any:
    """Value number k of n for a chance in (k / n, (k + 1) / n]."""
    return values[max(0, math.ceil(chance * len(values)) - 1)]


def _same(value: Any) -> str:
    """Equal for values that W&B takes for the same: 3 and 3.0, but not 3 and "3"."""
    plain = int(value) if isinstance(value, float) and value.is_integer() else value
    return yaml.safe_dump(plain, default_flow_style=True)
