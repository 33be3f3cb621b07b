"""Writing to a terminal that may be gone, may know few characters, and has a live bar at its end."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable
from typing import IO, Any, TextIO

from groundrl.config.notices import Notices


class SafeStream:
    """A text stream that never raises on what is written.

    Characters its encoding lacks become `?`. When the other side is gone (closed pipe, lost connection) the
    rest is dropped: losing a terminal must not end a training run.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._gone = False

    @property
    def encoding(self) -> str:
        return getattr(self._stream, "encoding", None) or "utf-8"

    @property
    def is_terminal(self) -> bool:
        return not self._stream.closed and self._stream.isatty()

    def write(self, text: str) -> int:
        if not self._gone:
            safe = text.encode(self.encoding, "replace").decode(self.encoding)
            try:
                self._stream.write(safe)
            except (OSError, ValueError):
                self._gone = True
        return len(text)

    def flush(self) -> None:
        if not self._gone:
            try:
                self._stream.flush()
            except (OSError, ValueError):
                self._gone = True

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


class LogToDisplay(logging.Handler):
    """Sends log records of the root logger to a display instead of around its live bar.

    While installed, the root's handlers that write to stdout or stderr, and `Notices`, rest.
    """

    def __init__(self, show: Callable[[str, int], None]) -> None:
        super().__init__(logging.INFO)
        self._show = show
        self._resting: list[logging.Handler] = []

    def emit(self, record: logging.LogRecord) -> None:
        self._show(self.format(record), record.levelno)

    def install(self) -> None:
        root = logging.getLogger()
        self._resting = [handler for handler in root.handlers if _writes_to_terminal(handler)]
        for handler in self._resting:
            root.removeHandler(handler)
        root.addHandler(self)

    def remove(self) -> None:
        root = logging.getLogger()
        root.removeHandler(self)
        for handler in self._resting:
            root.addHandler(handler)
        self._resting = []


def _writes_to_terminal(handler: logging.Handler) -> bool:
    if isinstance(handler, Notices):
        return True
    streams: list[IO[str] | None] = [sys.stdout, sys.stderr, sys.__stdout__, sys.__stderr__]
    return isinstance(handler, logging.StreamHandler) and handler.stream in streams
