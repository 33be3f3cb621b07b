"""Whatever results there are, no cell is silently ok."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.tables.fake_experiment import REWARDS, FakeExperiments, metrics, plan

from groundrl.reporting.experiments.folder import Results, read_experiment
from groundrl.reporting.tables.build import Choice, build_table
from groundrl.reporting.tables.cell import LEGEND

ROWS = "".join(f"  - {{label: {name}, axes: {{reward: {name}}}, published: {name}}}\n" for name in REWARDS)
COLUMNS = """
  - {label: mAP, metric: coco/ap, unit: percent, published: map, not_testable: {one_gpu: no reason}}
  - {label: GP, metric: coco/gp50, unit: percent, published: gp}
  - {label: half, metric: coco/ap, unit: percent, at: 0.5}
"""
TABLE = f"title: T\nquestion: Q\nrows:\n{ROWS}columns:{COLUMNS}"
RUNS = st.lists(
    st.fixed_dictionaries(
        {
            "reward": st.sampled_from(REWARDS),
            "seed": st.integers(0, 3),
            "scale": st.sampled_from(["paper", "tiny", "one_gpu"]),
            "old": st.booleans(),
            "measures": st.sampled_from(["coco/ap", "coco/gp50"]),
        }
    ),
    max_size=12,
    unique_by=lambda run: (run["reward"], run["seed"], run["scale"], run["old"]),
)


@settings(max_examples=25, deadline=None)
@given(RUNS, st.sampled_from([None, "paper", "tiny", "one_gpu"]))
def test_ok_means_all_that_it_says(runs: list[dict[str, Any]], scale: str | None) -> None:
    with tempfile.TemporaryDirectory() as folder:
        experiments = FakeExperiments(Path(folder))
        experiments.write(table=TABLE)
        for run in runs:
            experiments.add(
                run["reward"],
                [0.3],
                seeds=[run["seed"]],
                scale=run["scale"],
                old_key=f"old-{run['scale']}" if run["old"] else "",
                after=metrics({run["measures"]: 0.3}),
            )
        table = build_table(
            read_experiment(experiments.places, "x"),
            Results(experiments.places),
            plan,
            Choice(scale=scale, mixed=True),
        )
    for cell in table.all_cells():
        assert set(cell.marks) <= {*LEGEND, "tiny", "one_gpu"}
        told = {mark for mark, _ in table.legend()}
        assert set(cell.status.split(", ")) <= told
        own = [run for run in runs if (run["reward"], run["scale"]) == (cell.row, cell.scale)]
        fresh = {run["seed"] for run in own if not run["old"] and run["measures"] == cell.metric}
        if cell.status == "ok":
            assert cell.scale == "paper"
            assert fresh >= {0, 1, 2}
            assert len(cell.published) == 1
            assert cell.column != "half"
        if cell.measured is None:
            assert "missing" in cell.marks or "not testable" in cell.marks
        if "missing" in cell.marks:
            needed = {0, 1, 2} - {run["seed"] for run in own if not run["old"]}
            assert len(cell.missing.runs if cell.missing else ()) == len(needed)
            assert needed or cell.notes
