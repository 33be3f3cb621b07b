"""Where sweeps, their results and their runs are."""

from __future__ import annotations

import shlex
from dataclasses import dataclass, field
from pathlib import Path

from groundrl.config.locate import closest
from groundrl.config.repo import repo_root
from groundrl.errors import ConfigError

INTO = "results, tables and runs of your own, in the place of experiments/ and outputs/"
"""Help of the option `--into`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """Files of a checkout.

    root  the checkout
    into  a folder of results, tables and runs of one's own, in the place of experiments/ (None: experiments/,
          runs in outputs/): nothing counts as done that is not there
    """

    root: Path = field(default_factory=repo_root)
    into: Path | None = None

    def sweep(self, id: str) -> Path:
        """`sweeps/<id>.yaml`. Raises ConfigError when there is none."""
        return _existing(self.root / "sweeps", id, "ID", "sweep")

    def scale(self, name: str) -> Path:
        """`sweeps/scales/<name>.yaml`. Raises ConfigError when there is none."""
        return _existing(self.root / "sweeps" / "scales", name, "SCALE", "scale")

    def experiment(self, id: str) -> Path:
        return self.root / "experiments" / id

    def made(self, id: str) -> Path:
        """The folder that results and tables of an experiment are written to."""
        return (self.into or self.root / "experiments") / id

    def results(self, id: str) -> Path:
        return self.made(id) / "results.jsonl"

    def claims(self, id: str) -> Path:
        return self.experiment(id) / "claims.yaml"

    def lock(self, id: str, scale: str) -> Path:
        return self.made(id) / f"lock-{scale}.json"

    def runs(self, id: str, scale: str) -> Path:
        """The folder that the run folders of a sweep are in."""
        if self.into is not None:
            return self.into / id / "runs" / scale
        return self.root / "outputs" / "sweeps" / id / scale

    def all_results(self) -> list[Path]:
        """The results files of all experiments."""
        return sorted((self.into or self.root / "experiments").glob("*/results.jsonl"))

    def again(self, id: str, scale: str, seeds: int) -> str:
        """The command that runs what is missing of a sweep."""
        into = "" if self.into is None else f" INTO={shlex.quote(self.shown(self.into))}"
        return f"make sweep ID={id} SCALE={scale} SEEDS={seeds}{into}"

    def shown(self, path: Path) -> str:
        """A path for people: relative to the checkout where it is in it."""
        return str(path.relative_to(self.root) if path.is_relative_to(self.root) else path)


def _existing(folder: Path, name: str, key: str, what: str) -> Path:
    file = folder / f"{name}.yaml"
    if not file.is_file():
        known = tuple(sorted(path.stem for path in folder.glob("*.yaml")))
        listed = f"{what}s: {', '.join(known)}" if known else f"{folder} has no {what}s"
        raise ConfigError(key, f"no such {what}", got=name, todo=closest(name, known) + listed)
    return file
