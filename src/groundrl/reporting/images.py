"""Images of the run folder as data URIs, small enough to travel in one file."""

from __future__ import annotations

import base64
import io
from dataclasses import dataclass
from pathlib import Path

from PIL import Image

MAX_BYTES = 80_000
MAX_SIDE = 640


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbeddedImage:
    """`uri` is a data URI; `size` the (width, height) of the file before it was made smaller."""

    uri: str
    size: tuple[int, int]


def embed(run_dir: Path, relative: str) -> EmbeddedImage | None:
    """The image at `relative` inside `run_dir`; None if it is not there, outside, or not an image.

    A PNG up to 80 kB stays as it is; others become JPEGs of at most 640 pixels a side.
    """
    path = (run_dir / relative).resolve()
    if not relative or not path.is_relative_to(run_dir.resolve()) or not path.is_file():
        return None
    try:
        content = path.read_bytes()
        with Image.open(io.BytesIO(content)) as image:
            size = image.size
            image.load()
            if image.format == "PNG" and len(content) <= MAX_BYTES:
                return EmbeddedImage(uri=_uri("image/png", content), size=size)
            small = image.convert("RGB")
    except (OSError, ValueError, SyntaxError, Image.DecompressionBombError):
        return None
    small.thumbnail((MAX_SIDE, MAX_SIDE))
    buffer = io.BytesIO()
    small.save(buffer, format="JPEG", quality=85)
    return EmbeddedImage(uri=_uri("image/jpeg", buffer.getvalue()), size=size)


def _uri(kind: str, content: bytes) -> str:
    return f"data:{kind};base64,{base64.b64encode(content).decode('ascii')}"
