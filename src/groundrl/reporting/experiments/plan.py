"""What the sweep of an experiment asks for today: its axes, seeds and cells at a scale."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from groundrl.reporting.experiments.node import Node
from groundrl.sweeping.cells import Cell, build_cells
from groundrl.sweeping.layout import Layout
from groundrl.sweeping.sweep_file import read_sweep


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """A sweep at a scale. `axes`: name to its values; `seeds`: those of the file; `cells`: one per seed;
    `places`: where it is run."""

    id: str
    scale: str
    axes: Mapping[str, tuple[str, ...]]
    seeds: tuple[int, ...]
    cells: Sequence[Cell]
    places: Layout = field(default_factory=Layout)

    def again(self, seeds: int) -> str:
        """The command that runs what is missing of so many seeds."""
        return self.places.again(self.id, self.scale, seeds)

    def at(self, axes: Mapping[str, str]) -> dict[int, Cell]:
        """The cells with these axes, by seed."""
        return {cell.seed: cell for cell in self.cells if cell.axes == dict(axes)}

    def check_axes(self, axes: Mapping[str, str], node: Node) -> dict[str, str]:
        """`axes` with the values that the sweep leaves no choice of. Raises ConfigError.

        An axis or value that the sweep does not have, and an axis that is left open, are errors at `node`.
        """
        known = f"axes of {self.id}: {', '.join(self.axes) or 'none'}"
        for name, value in axes.items():
            if name not in self.axes:
                raise node.error("is no axis of the sweep", got=name, todo=known)
            if value not in self.axes[name]:
                raise node.error(
                    f"the sweep {self.id} has no {name}={value}", todo=f"values: {', '.join(self.axes[name])}"
                )
        for name, values in self.axes.items():
            if name not in axes and len(values) > 1:
                raise node.error(
                    f"leaves the axis {name} open", todo=f"add {name}: one of {', '.join(values)}"
                )
        return {name: axes.get(name, values[0]) for name, values in self.axes.items()}


Planner = Callable[[str, str, int], Plan]
"""(id, scale, number of seeds or more) to the plan."""


def planner(places: Layout) -> Planner:
    """Plans read from the sweeps of `places`, each composed once. Raises UserError as `build_cells` does."""
    known: dict[tuple[str, str], Plan] = {}

    def plan(id: str, scale: str, seeds: int) -> Plan:
        if (id, scale) not in known or len({cell.seed for cell in known[id, scale].cells}) < seeds:
            sweep = read_sweep(places.sweep(id))
            values = {name: tuple(map(str, sweep.parameters[name].values)) for name in sweep.axes}
            count = max(seeds, len(sweep.seeds))
            cells = build_cells(places, id, scale, seeds=count if count > len(sweep.seeds) else None)
            known[id, scale] = Plan(
                id=id, scale=scale, axes=values, seeds=sweep.seeds, cells=cells, places=places
            )
        return known[id, scale]

    return plan
