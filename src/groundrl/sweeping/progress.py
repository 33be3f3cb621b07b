"""What a sweep says while it runs: lines for what happened, and one for where it stands."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Sequence
from typing import TextIO

PLAIN_EVERY = 60.0
"""Seconds between lines of where a sweep stands when the output is no terminal."""


class Progress:
    """Writes to `stream`. On a terminal the line of where the sweep stands is written over."""

    def __init__(self, stream: TextIO, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._stream = stream
        self._live = stream.isatty()
        self._clock = clock
        self._said = clock()

    def event(self, text: str) -> None:
        """Something that happened: a line that stays."""
        self._write(f"\r\x1b[K{text}\n" if self._live else f"{text}\n")

    def standing(self, parts: Sequence[str]) -> None:
        """Where the sweep stands; without a terminal only every minute."""
        if self._live:
            width = shutil.get_terminal_size().columns - 1
            self._write(f"\r\x1b[K{'  '.join(parts)[:width]}")
        elif parts and self._clock() - self._said >= PLAIN_EVERY:
            self._said = self._clock()
            self._write("".join(f"  {part}\n" for part in parts))

    def _write(self, text: str) -> None:
        self._stream.write(text)
        self._stream.flush()
