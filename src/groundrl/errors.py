"""The errors that users see.

`UserError` and its children are caused by input: a setting, a data row, a folder. The command line prints
them as one line and exits with code 2. Anything else is a bug or a failure of the machine and keeps its
traceback.
"""

from __future__ import annotations

from pathlib import Path


class GroundRLError(Exception):
    """Base of all errors raised on purpose by this package."""

    exit_code = 1


class UserError(GroundRLError):
    """Input that cannot be used; the message says what is wrong and what to do."""

    exit_code = 2


class ConfigError(UserError):
    """A setting that is wrong: `<dotted key>: <what is wrong>, got <value>; <what to do>`."""

    def __init__(self, key: str, problem: str, *, got: object | None = None, todo: str = "") -> None:
        self.key, self.problem, self.got, self.todo = key, problem, got, todo
        message = f"{key}: {problem}"
        if got is not None:
            message += f", got {got!r}"
        if todo:
            message += f"; {todo}"
        super().__init__(message)

    def at(self, prefix: str) -> ConfigError:
        """The same error, its key placed under `prefix` (a component does not know where it is mounted)."""
        key = f"{prefix}.{self.key}" if self.key else prefix
        return type(self)(key, self.problem, got=self.got, todo=self.todo)


class NoFileError(ConfigError):
    """A setting that names a file which is not there."""


class DataError(UserError):
    """A data file or row that cannot be used; names the file and, where there is one, the row."""

    def __init__(self, path: str | Path, problem: str, *, row: int | None = None, todo: str = "") -> None:
        self.path, self.row = str(path), row
        where = f"{path}, row {row}" if row is not None else str(path)
        super().__init__(f"{where}: {problem}" + (f"; {todo}" if todo else ""))


class RunFolderError(UserError):
    """A run folder that cannot be written, is in use, or already holds another run."""


class CheckpointError(UserError):
    """A checkpoint that is missing, incomplete or does not match its manifest."""


class NonFiniteError(GroundRLError):
    """A loss or gradient that is not finite although the guard was told to stop."""


class EngineError(GroundRLError):
    """A rollout engine that gave no answer: it timed out, died or refused."""
