"""A small checkout in a temporary folder: sweeps, a scale, and a train.py that only pretends."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from omegaconf import OmegaConf

from groundrl.config.compose import compose_words
from groundrl.sweeping.cells import Cell, build_cells
from groundrl.sweeping.layout import Layout
from groundrl.sweeping.results import ResultRow, read_results

COMMAND = 'command: ["${env}", "${interpreter}", "${program}", "${args_no_hyphens}"]'
REPO = Path(__file__).resolve().parents[3]
RUN = """
import sys
from pathlib import Path
from groundrl.sweeping.layout import Layout
from groundrl.sweeping.run import main
sys.exit(main(sys.argv[2:], layout=Layout(root=Path(sys.argv[1]))))
"""


@dataclass(slots=True, kw_only=True)
class Checkout:
    """`fake`: what fake_train.py is told."""

    root: Path
    fake: dict[str, Any] = field(
        default_factory=lambda: {"configs": {}, "steps": 3, "step_s": 0.0, "fail": []}
    )

    @property
    def layout(self) -> Layout:
        return Layout(root=self.root)

    def sweep(self, id: str, parameters: str, *, method: str = "grid", more: str = "") -> Path:
        """Write sweeps/<id>.yaml; `parameters` are the lines below `parameters:`."""
        text = f"program: train.py\nmethod: {method}\nname: {id}\n{COMMAND}\n{more}\nparameters:\n"
        lines = "".join(f"  {line.strip()}\n" for line in parameters.strip().splitlines())
        return self.write(f"sweeps/{id}.yaml", text + lines)

    def write(self, name: str, text: str) -> Path:
        file = self.root / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
        return file

    def cells(self, id: str, seeds: int | None = None) -> list[Cell]:
        return build_cells(self.layout, id, "tiny", seeds=seeds)

    def pretend(self, *ids: str, seeds: int | None = None, **changes: Any) -> None:
        """Tell the fake train.py what the cells of these sweeps resolve to, and how to behave."""
        shutil.copy(Path(__file__).with_name("fake_train.py"), self.root / "train.py")
        for cell in (cell for id in ids for cell in self.cells(id, seeds)):
            resolved = OmegaConf.to_container(compose_words(cell.words), resolve=True, enum_to_str=True)
            self.fake["configs"][" ".join(cell.words)] = resolved
        self.fake |= changes
        self.write("fake.json", json.dumps(self.fake))

    def starts(self) -> list[str]:
        """What train.py was started for: `begin reward=ap seed 0`, `resume reward=ap seed 0 at 2`."""
        file = self.root / "starts.txt"
        return file.read_text("utf-8").splitlines() if file.exists() else []

    def rows(self, id: str) -> list[ResultRow]:
        return read_results(self.layout.results(id))

    def start(self, *argv: str) -> subprocess.Popen[str]:
        """The runner in a process of its own."""
        environment = {**os.environ, "PYTHONPATH": str(REPO / "src")}
        return subprocess.Popen(
            [sys.executable, "-c", RUN, str(self.root), *argv],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env=environment,
        )


def wait_for(condition: Callable[[], bool], seconds: float = 60.0) -> None:
    """Until it holds; fails after `seconds`."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.01)
