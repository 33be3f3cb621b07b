"""Warnings on stderr before a run has its display, each said once however often data is opened."""

from __future__ import annotations

import contextlib
import logging
import sys
from collections.abc import Iterator


class Notices(logging.Handler):
    """Prints `warning: TEXT` on the present stderr, a text only once."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self._said: set[str] = set()

    def emit(self, record: logging.LogRecord) -> None:
        text = " ".join(self.format(record).split())
        if text not in self._said:
            self._said.add(text)
            print(f"{record.levelname.lower()}: {text}", file=sys.stderr)


@contextlib.contextmanager
def notices() -> Iterator[None]:
    """Shows the warnings of the block."""
    root, handler = logging.getLogger(), Notices()
    root.addHandler(handler)
    try:
        yield
    finally:
        root.removeHandler(handler)
