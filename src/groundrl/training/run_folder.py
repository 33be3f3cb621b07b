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
from groundrl.tracking.redact import redact

CONFIG = "config.yaml"
OVERRIDES = "overrides.yaml"
RESULT = "result.json"
LOCK = "run.lock"


class FolderTakenError(RunFolderError):
    """Another process holds the folder, or has put a run into it meanwhile."""


class RunFolder:
    """An open run folder; the lock is held until `close` or the end of the process.

    owned: False for the other processes of a run, whose first one holds the lock
    """

    def __init__(self, path: Path, *, owned: bool = True) -> None:
        self.path = path
        self._lock = _lock(path) if owned else None

    def close(self) -> None:
        if self._lock is not None:
            self._lock.close()

    @property
    def checkpoints(self) -> Path:
        return self.path / "checkpoints"


def create(paths: PathsConfig, invocation: Invocation, seed: int) -> RunFolder:
    """A new run folder with the configuration written into it.

    A name made from the settings gets `.2`, `.3`, ... when an earlier run has it or another process is
    about to; a folder given by `paths.output_dir` must not hold a run. Raises RunFolderError, also when a
    setting holds a secret: settings are stored, printed and uploaded.
    """
    check_new(paths)
    if redact(invocation.resolved) != invocation.resolved:
        raise RunFolderError(
            "a setting holds a secret (a key, a password or a login in an address), and settings are stored "
            "with the run; give secrets by environment variables only"
        )
    if paths.output_dir is not None:
        return _open_new(Path(paths.output_dir), invocation, "paths.output_dir")
    base = Path(paths.root) / (invocation.experiment or "main") / invocation.folder_name(seed)
    number = 1
    while True:
        folder = base if number == 1 else base.with_name(f"{base.name}.{number}")
        if not (folder / CONFIG).exists():
            try:
                return _open_new(folder, invocation, "paths.root")
            except FolderTakenError:
                pass
        number += 1


def check_new(paths: PathsConfig) -> None:
    """Raise RunFolderError when the folder cannot be written, or `paths.output_dir` holds a run already."""
    given = paths.output_dir
    if given is None:
        _check_writable(Path(paths.root), "paths.root")
        return
    if (Path(given) / CONFIG).exists():
        raise RunFolderError(
            f"paths.output_dir: {given!r} already holds a run; go on with it by resume={given}, or choose "
            "another folder (paths.root=FOLDER names one per run)"
        )
    _check_writable(Path(given), "paths.output_dir")


def _check_writable(folder: Path, key: str) -> None:
    """The nearest folder above that exists must be one, and allow new entries."""
    above = next(place for place in (folder.absolute(), *folder.absolute().parents) if place.exists())
    if not above.is_dir():
        raise _unwritable(folder, key, f"{above} is not a folder")
    if not os.access(above, os.W_OK | os.X_OK):
        raise _unwritable(folder, key, f"no permission in {above}")


def _unwritable(folder: Path, key: str, why: str | None) -> RunFolderError:
    return RunFolderError(f"{key}: cannot write to {str(folder)!r} ({why}); choose another {key}=FOLDER")


def check_run_folder(path: str, key: str = "resume") -> Path:
    """The folder of an earlier run, given as `key`. Raises RunFolderError when it is none."""
    folder = Path(path)
    if not folder.is_dir():
        raise RunFolderError(f"{key}: there is no folder {path!r}; give the run folder that was printed")
    for name in (CONFIG, OVERRIDES):
        if not (folder / name).is_file():
            raise RunFolderError(
                f"{key}: {path!r} holds no {name}, so it is no run folder; give the one that was printed"
            )
    return folder


def reopen(path: str) -> RunFolder:
    """The folder of an earlier run, for resuming it. Raises RunFolderError."""
    return RunFolder(check_run_folder(path))


def _open_new(folder: Path, invocation: Invocation, key: str) -> RunFolder:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        opened = RunFolder(folder)
        if (folder / CONFIG).exists():
            opened.close()
            raise FolderTakenError(f"{key}: {folder} holds a run by now; choose another folder")
        write_atomic(folder / OVERRIDES, yaml.safe_dump(list(invocation.overrides)).encode())
        text = yaml.safe_dump(invocation.resolved, sort_keys=False, allow_unicode=True)
        write_atomic(folder / CONFIG, text.encode())
    except OSError as error:
        raise _unwritable(folder, key, error.strerror) from None
    return opened


def _lock(folder: Path) -> IO[str]:
    """An exclusive lock that ends with the process, however it ends."""
    try:
        stream = (folder / LOCK).open("a+", encoding="utf-8")
    except OSError as error:
        raise RunFolderError(
            f"cannot write to {str(folder)!r} ({error.strerror}); make it writable or choose another folder"
        ) from None
    try:
        fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        stream.seek(0)
        owner = stream.read().strip() or "unknown"
        stream.close()
        raise FolderTakenError(
            f"{folder} is in use by process {owner}; wait for it, stop it, or choose another folder"
        ) from None
    stream.seek(0)
    stream.truncate()
    stream.write(str(os.getpid()))
    stream.flush()
    return stream
