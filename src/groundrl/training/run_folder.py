"""The run folder: named after its settings, owned by one process, never written over."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path
from typing import IO

import yaml

from groundrl.config.invocation import Invocation
from groundrl.errors import RunFolderError
from groundrl.run_config import PathsConfig
from groundrl.tracking.lines import write_atomic

CONFIG = "config.yaml"
OVERRIDES = "overrides.yaml"
RESULT = "result.json"
LOCK = "run.lock"


class RunFolder:
    """An open run folder; the lock is held until `close` or the end of the process."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = _lock(path)

    def close(self) -> None:
        self._lock.close()

    @property
    def checkpoints(self) -> Path:
        return self.path / "checkpoints"


def create(paths: PathsConfig, invocation: Invocation, seed: int) -> RunFolder:
    """A new run folder with the configuration written into it.

    A name made from the settings gets `.2`, `.3`, ... when an earlier run has it; a folder given by
    `paths.output_dir` must not hold a run.
    """
    if paths.output_dir is not None:
        folder = Path(paths.output_dir)
        if (folder / CONFIG).exists():
            raise RunFolderError(
                f"paths.output_dir: {folder} already holds a run; resume it with resume={folder}, or choose "
                "another folder (paths.root=FOLDER names one per run)"
            )
        return _open_new(folder, invocation)
    base = Path(paths.root) / (invocation.experiment or "main") / invocation.folder_name(seed)
    number = 1
    while True:
        folder = base if number == 1 else base.with_name(f"{base.name}.{number}")
        if not (folder / CONFIG).exists():
            try:
                return _open_new(folder, invocation)
            except RunFolderError:
                if not (folder / CONFIG).exists():
                    raise
        number += 1


def reopen(path: str) -> RunFolder:
    """The folder of an earlier run, for resuming it."""
    folder = Path(path)
    if not folder.is_dir():
        raise RunFolderError(f"resume: the folder {path} does not exist; give the run folder that was printed")
    if not (folder / CONFIG).is_file():
        raise RunFolderError(f"resume: {path} holds no {CONFIG}, so it is no run folder")
    return RunFolder(folder)


def _open_new(folder: Path, invocation: Invocation) -> RunFolder:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        opened = RunFolder(folder)
        write_atomic(folder / OVERRIDES, yaml.safe_dump(list(invocation.overrides)).encode())
        text = yaml.safe_dump(invocation.resolved, sort_keys=False, allow_unicode=True)
        write_atomic(folder / CONFIG, text.encode())
    except OSError as error:
        raise RunFolderError(
            f"paths: cannot write to {folder} ({error.strerror}); choose another paths.root or paths.output_dir"
        ) from None
    return opened


def _lock(folder: Path) -> IO[str]:
    """An exclusive lock that ends with the process, however it ends."""
    try:
        stream = (folder / LOCK).open("a+", encoding="utf-8")
    except OSError as error:
        raise RunFolderError(f"cannot write to {folder} ({error.strerror})") from None
    try:
        fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        stream.seek(0)
        owner = stream.read().strip() or "unknown"
        stream.close()
        raise RunFolderError(
            f"{folder} is in use by process {owner}; wait for it, stop it, or choose another folder"
        ) from None
    stream.seek(0)
    stream.truncate()
    stream.write(str(os.getpid()))
    stream.flush()
    return stream
