"""A time limit on pure Python code, by an interval timer and its signal."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class TimeUp(BaseException):
    """The limit was reached. No `Exception`, so that libraries that catch those do not swallow it."""


@contextmanager
def deadline(seconds: float) -> Iterator[None]:
    """Raise `TimeUp` in the body after `seconds`, and again after as many more should it be swallowed.

    Signals reach the main thread only: elsewhere there is no limit, and the caller has to bound the work by
    its input. A single long operation of the interpreter, such as a huge power, is not interrupted either.
    A timer that was set before goes on afterwards, its remaining time unchanged.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    armed = True

    def stop(number: int, frame: FrameType | None) -> None:
        if armed:
            raise TimeUp

    handler = signal.signal(signal.SIGALRM, stop)
    timer = signal.setitimer(signal.ITIMER_REAL, seconds, seconds)
    try:
        try:
            yield
        finally:
            armed = False
    finally:
        signal.setitimer(signal.ITIMER_REAL, *timer)
        signal.signal(signal.SIGALRM, handler)
