"""Images that training and evaluation share, by their names: what was trained on measures nothing.

Pictures are not compared here (`make data-check` does that within a data set), so a copy under another name
goes unseen.
"""

from __future__ import annotations

import hashlib
import re
from pathlib import Path
from typing import Protocol, runtime_checkable

from groundrl.data.base import SampleSource

_COCO = re.compile(r"(?:^|_)(\d{12})$")


@runtime_checkable
class Named(Protocol):
    """A source that can name its images: None where that would mean reading too much."""

    def image_ids(self) -> frozenset[str] | None: ...


def image_id(image: str | bytes, root: Path) -> str:
    """What identifies an image: its COCO number wherever it lies, else its place; bytes by their digest.

    RefCOCO names COCO_train2014_000000000009.jpg what COCO of 2017 calls 000000000009.jpg.
    """
    if isinstance(image, bytes):
        return f"sha256:{hashlib.sha256(image).hexdigest()[:32]}"
    if found := _COCO.search(Path(image).stem):
        return f"coco:{found[1]}"
    return str((root / image).absolute())


def image_ids(source: SampleSource) -> frozenset[str] | None:
    """The images of a source; None where it does not say (generated worlds, streams, very large files)."""
    return source.image_ids() if isinstance(source, Named) else None
