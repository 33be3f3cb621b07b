"""How a cell is started: as a process here, or through Hydra's submitit launcher on a SLURM cluster."""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path

from groundrl.errors import ConfigError
from groundrl.sweeping.cell_folder import CellFolder, FolderState
from groundrl.sweeping.cells import Cell
from groundrl.sweeping.sweep_file import PROGRAM


class LauncherName(StrEnum):
    """local: a process of this machine. submitit: a SLURM job (`hydra/launcher=submitit_slurm`).
    submitit_local: the same way without a cluster, to try it."""

    local = "local"
    submitit = "submitit"
    submitit_local = "submitit_local"


def check_launcher(name: LauncherName) -> None:
    """Raise ConfigError when what the launcher needs is not installed."""
    if name is not LauncherName.local and importlib.util.find_spec("submitit") is None:
        todo = 'pip install "groundrl[slurm]" (hydra-submitit-launcher), or leave LAUNCHER out'
        raise ConfigError("LAUNCHER", "Hydra's submitit launcher is not installed", got=str(name), todo=todo)


def command(
    cell: Cell, folder: CellFolder, root: Path, launcher: LauncherName, words: Sequence[str] = ()
) -> list[str]:
    """The words after `python` that start or resume a cell in the checkout `root`.

    words  of Hydra's launcher, e.g. hydra.launcher.partition=gpu
    """
    place, run = (path.relative_to(root) for path in (folder.path, folder.run))
    resumes = folder.state() is FolderState.resumable
    if launcher is LauncherName.local:
        own = [f"resume={run}"] if resumes else [*cell.words, f"paths.output_dir={place}"]
        return [PROGRAM, *own]
    plugin = "submitit_local" if launcher is LauncherName.submitit_local else "submitit_slurm"
    # with -m a run folder is named by its settings, below paths.root
    own = [f"resume={run}"] if resumes else [*cell.words, f"paths.root={place}"]
    return [PROGRAM, "-m", f"hydra/launcher={plugin}", f"hydra.sweep.dir={place}", *words, *own]
