"""Files that tests leave open are closed after them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from groundrl.tracking.lines import JsonLines


@pytest.fixture(autouse=True, scope="module")
def close_files() -> Iterator[None]:
    """Close every JSON-lines file that was opened."""
    opened: list[JsonLines] = []
    start = JsonLines.__init__

    def remember(self: JsonLines, path: Path) -> None:
        start(self, path)
        opened.append(self)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(JsonLines, "__init__", remember)
        yield
        for lines in opened:
            lines.close()
