"""Opening an image the one way: orientation applied, RGB, nothing outside the data root."""

from __future__ import annotations

import re
import struct
from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from typing import TypeVar

import numpy as np
from PIL import Image, ImageOps

from groundrl.errors import DataError
from groundrl.types import Size

MAX_PIXELS = 100_000_000
MAX_ASPECT = 200
BACKGROUND = (255, 255, 255)
_REMOTE = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+://")
_DRIVE = re.compile(r"[A-Za-z]:")
_SHOWN = 120
"""Characters of a path that an error repeats."""

_BROKEN = (OSError, SyntaxError, ValueError, EOFError, LookupError, TypeError, OverflowError, struct.error)
"""What Pillow raises for files that are damaged or of no known format."""

T = TypeVar("T")
_ORIENTATION = 0x0112
"""EXIF tag; 5 to 8 exchange width and height."""

_BOMB = (Image.DecompressionBombError, Image.DecompressionBombWarning)


def find_image(path: str, root: Path, *, file: Path, row: int) -> Path:
    """The file at `path`, relative to `root`; it is not opened.

    Raises DataError, naming the data file and the row, for an address, a Windows path, a path that leaves
    `root` (absolute, through .. or through a link) and a file that is not there.
    """
    shown = path if len(path) <= _SHOWN else f"{path[:_SHOWN]}..."

    def refused(problem: str, todo: str) -> DataError:
        return DataError(file, f"image {shown!r} {problem}", row=row, todo=todo)

    if _REMOTE.match(path):
        raise refused("is an address, and nothing is downloaded", "download it and give its path")
    if "\\" in path or _DRIVE.match(path):
        raise refused("is a Windows path", "write it relative to dataset.images, with forward slashes")
    try:
        full = (root / path).resolve()
        inside, exists = full.is_relative_to(root.resolve()), full.is_file()
    except (OSError, ValueError, RuntimeError) as error:  # too long, a NUL, links in a circle
        why = error.strerror if isinstance(error, OSError) else type(error).__name__
        raise refused(f"is no path ({why})", "correct it") from None
    if not inside:
        raise refused(
            f"lies outside the data root {root}", "move it there, or set dataset.images to a folder above it"
        )
    if not exists:
        raise refused(f"does not exist below {root}", "copy it there, or set dataset.images")
    return full


def open_image(path: str, root: Path, *, file: Path, row: int) -> Image.Image:
    """The RGB image at `path`, relative to `root`. Raises DataError naming the data file and the row.

    EXIF orientation is applied first, so sizes and boxes mean the picture as it is seen; transparency is
    laid over white; 16-bit grey is scaled, not cut. An image of more than 100 megapixels, or longer than 200
    times its width, is refused before it is decoded.
    """
    return _open(find_image(path, root, file=file, row=row), path, file, row)


def open_bytes(data: bytes, *, name: str, file: Path, row: int) -> Image.Image:
    """The RGB image in `data`, called `name` in errors; checked and converted as by `open_image`."""
    return _open(BytesIO(data), name, file, row)


def image_size(image: str | bytes, root: Path, *, name: str, file: Path, row: int) -> Size:
    """(width, height) of an image as it is seen, from its header: its pixels are not decoded.

    Raises DataError as `open_image` does for what the header shows.
    """
    source = find_image(image, root, file=file, row=row) if isinstance(image, str) else BytesIO(image)
    return _with(source, name, file, row, _upright)


def _upright(opened: Image.Image) -> Size:
    width, height = opened.size
    turned = opened.getexif().get(_ORIENTATION, 1) in (5, 6, 7, 8)
    return (height, width) if turned else (width, height)


def _open(source: Path | BytesIO, name: str, file: Path, row: int) -> Image.Image:
    return _with(source, name, file, row, lambda opened: _rgb(ImageOps.exif_transpose(opened)))


def _with(source: Path | BytesIO, name: str, file: Path, row: int, use: Callable[[Image.Image], T]) -> T:
    """What `use` makes of the opened image, whose size is fit to be decoded."""

    def refused(problem: str, todo: str) -> DataError:
        return DataError(file, f"image {name} {problem}", row=row, todo=todo)

    try:
        with Image.open(source) as opened:
            width, height = opened.size
            if width * height > MAX_PIXELS:
                raise refused(f"has {width} x {height} pixels", "shrink it")
            if max(width, height) > MAX_ASPECT * min(width, height):
                raise refused(f"is {width} x {height}: more than {MAX_ASPECT} to 1", "crop it")
            return use(opened)
    except _BOMB as error:
        raise refused(f"has too many pixels ({error})", "shrink it") from None
    except _BROKEN as error:
        raise refused(f"cannot be read ({error})", "replace it") from None


def _rgb(image: Image.Image) -> Image.Image:
    if image.mode == "F":
        raise ValueError("its pixels are floats of no declared range")
    if image.mode.startswith("I"):
        return _from_16_bit(image)
    if image.mode in ("RGBA", "LA", "PA") or "transparency" in image.info:
        layer = image.convert("RGBA")
        ground = Image.new("RGBA", layer.size, (*BACKGROUND, 255))
        return Image.alpha_composite(ground, layer).convert("RGB")
    return image.convert("RGB")


def _from_16_bit(image: Image.Image) -> Image.Image:
    """65535 is white: 257 grey levels of 16 bits are one of 8."""
    levels = np.asarray(image).astype(np.int64)
    if levels.min() < 0 or levels.max() > 65535:
        raise ValueError("its pixels are integers of more than 16 bits")
    return Image.fromarray(((levels + 128) // 257).astype(np.uint8)).convert("RGB")
