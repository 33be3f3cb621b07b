"""An outside service may fail; a training run must not."""

from __future__ import annotations

import logging
from collections.abc import Callable

logger = logging.getLogger(__name__)


class Guard:
    """Calls a service until it fails once: says so in one warning, then leaves it alone.

    errors: what counts as a failure of the service; anything else is raised.
    meaning: what the user is told, with `{}` for the reason.
    """

    def __init__(self, meaning: str, errors: tuple[type[BaseException], ...]) -> None:
        self.lost = False
        self._meaning = meaning
        self._errors = errors

    def __call__(self, call: Callable[[], None]) -> None:
        if self.lost:
            return
        try:
            call()
        except self._errors as error:
            self.lost = True
            logger.warning("%s", self._meaning.format(error))
