"""One sweep of an id at a time."""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path

from groundrl.errors import RunFolderError


@contextlib.contextmanager
def owned(file: Path, what: str) -> Iterator[None]:
    """Hold the lock `file`, which ends with the process. Raises RunFolderError when another holds it."""
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("a+", encoding="utf-8") as stream:
        try:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            stream.seek(0)
            owner = stream.read().strip() or "unknown"
            raise RunFolderError(
                f"{what} is already being run by process {owner}; wait for it, or stop it (kill {owner}: the "
                "runs save and end) and start this again"
            ) from None
        stream.seek(0)
        stream.truncate()
        stream.write(str(os.getpid()))
        stream.flush()
        yield
