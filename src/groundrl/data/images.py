"""Opening an image the one way: orientation applied, RGB, nothing outside the data root."""

from __future__ import annotations

from pathlib import Path

from PIL import Image, ImageOps, UnidentifiedImageError

from groundrl.errors import DataError

MAX_PIXELS = 100_000_000
MAX_ASPECT = 200
BACKGROUND = (255, 255, 255)


def open_image(path: str, root: Path, *, file: Path, row: int) -> Image.Image:
    """The RGB image at `path`, relative to `root`. Raises DataError naming the data file and the row.

    EXIF orientation is applied first, so sizes and boxes mean the picture as it is seen; transparency is
    laid over white; an image of more than 100 megapixels is refused before it is decoded.
    """
    full = (root / path).resolve()
    if not full.is_relative_to(root.resolve()):
        raise DataError(file, f"image {path} lies outside the data root {root}", row=row, todo="move it")
    try:
        with Image.open(full) as opened:
            width, height = opened.size
            if width * height > MAX_PIXELS:
                problem = f"image {path} has {width} x {height} pixels"
                raise DataError(file, problem, row=row, todo="shrink it")
            if max(width, height) > MAX_ASPECT * min(width, height):
                problem = f"image {path} is {width} x {height}: more than 200 to 1"
                raise DataError(file, problem, row=row, todo="crop it")
            return _rgb(ImageOps.exif_transpose(opened))
    except FileNotFoundError:
        problem = f"image {path} does not exist below {root}"
        raise DataError(file, problem, row=row, todo="copy it there") from None
    except (UnidentifiedImageError, OSError, SyntaxError, ValueError) as error:
        raise DataError(file, f"image {path} cannot be read ({error})", row=row, todo="replace it") from None


def _rgb(image: Image.Image) -> Image.Image:
    if image.mode in ("RGBA", "LA", "PA") or "transparency" in image.info:
        layer = image.convert("RGBA")
        ground = Image.new("RGBA", layer.size, (*BACKGROUND, 255))
        return Image.alpha_composite(ground, layer).convert("RGB")
    if image.mode.startswith("I;16") or image.mode == "I":
        return image.point(lambda value: value / 257).convert("L").convert("RGB")
    return image.convert("RGB")
