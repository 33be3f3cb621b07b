"""Images as they stand in a record: a path, bytes, base64 text, or an object that holds either."""

from __future__ import annotations

import base64
import binascii
import re
from typing import Any

from groundrl.data.records import Record

_DATA_URI = re.compile(r"data:image/[A-Za-z0-9.+-]+;base64,")
_MAGIC = (b"\x89PNG", b"\xff\xd8\xff", b"GIF8", b"RIFF", b"BM", b"II*\x00", b"MM\x00*")
_SHORTEST = 64
"""Characters below which a text is a path: no image is as short in base64."""


def read_images(record: Record, value: Any) -> tuple[str | bytes, ...]:
    """The images of one value, or of a list of them; nothing for None. Raises DataError for other values."""
    if value is None:
        return ()
    values: list[Any] = list(value) if isinstance(value, (list, tuple)) else [value]
    return tuple(_image(record, one) for one in values)


def _image(record: Record, value: Any) -> str | bytes:
    if isinstance(value, dict):  # as the `datasets` library stores an image: bytes, else a path
        value = value.get("bytes") or value.get("path")
    if isinstance(value, bytes) and value:
        return value
    if not isinstance(value, str) or not value:
        raise record.error(
            f"an image is a {type(value).__name__}", "give a path, bytes, base64, or {bytes, path}"
        )
    uri = _DATA_URI.match(value)
    if uri is None and len(value) < _SHORTEST:
        return value
    try:
        data = base64.b64decode("".join(value[uri.end() if uri else 0 :].split()), validate=True)
    except (binascii.Error, ValueError):
        if uri is None:
            return value
        raise record.error("an image is no base64", "write it again") from None
    return data if uri or data.startswith(_MAGIC) else value
