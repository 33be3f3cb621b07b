"""Images: every mode becomes RGB with the same meaning; nothing outside the root, nothing too large."""

from __future__ import annotations

import io
import random
import struct
import zlib
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from groundrl.data.images import find_image, open_bytes, open_image
from groundrl.errors import DataError

FILE = Path("rows.jsonl")


def encoded(image: Image.Image, kind: str = "PNG", **more: object) -> bytes:
    made = io.BytesIO()
    image.save(made, kind, **more)
    return made.getvalue()


def opened(image: Image.Image, kind: str = "PNG", **more: object) -> Image.Image:
    return open_bytes(encoded(image, kind, **more), name="x", file=FILE, row=3)


def png_header(width: int, height: int) -> bytes:
    """A PNG that claims a size and holds no pixels."""
    body = b"IHDR" + struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    chunk = struct.pack(">I", 13) + body + struct.pack(">I", zlib.crc32(body))
    return b"\x89PNG\r\n\x1a\n" + chunk + b"\0\0\0\0IEND\xaeB`\x82"


def test_bytes_and_file_are_the_same_picture(tmp_path: Path) -> None:
    image = Image.new("RGB", (40, 30), (1, 2, 3))
    (tmp_path / "a.png").write_bytes(encoded(image))
    for made in (open_image("a.png", tmp_path, file=FILE, row=1), opened(image)):
        assert (made.mode, made.size, made.getpixel((0, 0))) == ("RGB", (40, 30), (1, 2, 3))


@pytest.mark.parametrize(
    ("value", "seen"),
    [(0, 0), (257, 1), (128, 0), (129, 1), (25700, 100), (65535, 255)],
)
def test_16_bit_grey_is_scaled(value: int, seen: int) -> None:
    """257 levels are one: 128 / 257 rounds to 0, 129 / 257 to 1."""
    pixels = np.full((30, 40), value, dtype=np.uint16)
    assert opened(Image.fromarray(pixels)).getpixel((5, 5)) == (seen, seen, seen)


def test_32_bit_grey_and_floats_are_refused() -> None:
    wide = Image.fromarray(np.full((30, 40), 70000, dtype=np.int32))
    real = Image.fromarray(np.full((30, 40), 0.5, dtype=np.float32))
    with pytest.raises(DataError, match="more than 16 bits"):
        opened(wide, "TIFF")
    with pytest.raises(DataError, match="floats of no declared range"):
        opened(real, "TIFF")


def test_webp_keeps_colour_and_transparency() -> None:
    plain = opened(Image.new("RGB", (40, 30), (200, 10, 10)), "WEBP", lossless=True)
    clear = opened(Image.new("RGBA", (40, 30), (200, 10, 10, 0)), "WEBP", lossless=True)
    assert (plain.mode, plain.getpixel((3, 3))) == ("RGB", (200, 10, 10))
    assert clear.getpixel((3, 3)) == (255, 255, 255)


def test_the_first_picture_of_an_animation_is_taken() -> None:
    frames = [Image.new("RGB", (40, 30), colour) for colour in ((255, 0, 0), (0, 0, 255))]
    assert opened(frames[0], "GIF", save_all=True, append_images=frames[1:]).getpixel((0, 0)) == (255, 0, 0)


@pytest.mark.parametrize(("width", "height"), [(10_001, 10_000), (14_000, 14_000), (60_000, 60_000)])
def test_bombs_are_refused_before_they_are_decoded(width: int, height: int) -> None:
    """A little over 100 megapixels, where Pillow warns, and where it refuses itself: one kind of error."""
    with pytest.raises(DataError, match=r"rows\.jsonl, row 3: image x has .*shrink it"):
        open_bytes(png_header(width, height), name="x", file=FILE, row=3)


@pytest.mark.parametrize(
    ("size", "good"), [((200, 1), True), ((201, 1), False), ((1, 400), False), ((1, 1), True)]
)
def test_only_extreme_shapes_are_refused(size: tuple[int, int], good: bool) -> None:
    if good:
        assert opened(Image.new("RGB", size)).size == size
        return
    with pytest.raises(DataError, match=f"is {size[0]} x {size[1]}: more than 200 to 1"):
        opened(Image.new("RGB", size))


@pytest.mark.parametrize(
    ("path", "problem"),
    [
        ("../secret.png", "lies outside"),
        ("sub/../../secret.png", "lies outside"),
        ("/etc/hostname", "lies outside"),
        ("link.png", "lies outside"),
        ("linked/secret.png", "lies outside"),
        ("circle/a.png", "does not exist|is no path"),
        ("C:\\a.png", "is a Windows path"),
        ("C:/a.png", "is a Windows path"),
        ("..\\secret.png", "is a Windows path"),
        ("\\\\host\\share\\a.png", "is a Windows path"),
        ("https://host/a.png", "is an address.*download it"),
        ("s3://bucket/a.png", "is an address"),
        ("file:///etc/hostname", "is an address"),
        ("a.png\0.jpg", "is no path"),
        ("x" * 5000, "is no path|does not exist"),
        ("", "does not exist"),
        ("root.png/", "does not exist"),
        (".", "does not exist"),
        ("\ud800.png", "is no path|does not exist"),
    ],
)
def test_paths_that_are_refused(tmp_path: Path, path: str, problem: str) -> None:
    root = tmp_path / "root"
    (root / "sub").mkdir(parents=True)
    (tmp_path / "secret.png").write_bytes(encoded(Image.new("RGB", (40, 30))))
    (root / "link.png").symlink_to(tmp_path / "secret.png")
    (root / "linked").symlink_to(tmp_path)
    (root / "circle").symlink_to(root / "circle")
    with pytest.raises(DataError, match=problem) as caught:
        open_image(path, root, file=FILE, row=4)
    assert caught.value.row == 4
    assert len(str(caught.value)) < 1000


def test_paths_that_stay_inside_are_taken(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "a b:ü.png").write_bytes(encoded(Image.new("RGB", (40, 30))))
    (tmp_path / "sub" / "l.png").symlink_to(tmp_path / "a b:ü.png")
    paths = ("a b:ü.png", "./a b:ü.png", "sub/../a b:ü.png", "sub/l.png", str(tmp_path / "a b:ü.png"))
    assert {find_image(path, tmp_path, file=FILE, row=1).name for path in paths} == {"a b:ü.png"}


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("kind", ["PNG", "JPEG", "WEBP", "GIF", "BMP", "TIFF"])
def test_damaged_files_are_one_kind_of_error(kind: str) -> None:
    """Bytes changed and cut at random places: a picture or a DataError, nothing else."""
    rng = random.Random(kind)
    exif = Image.Exif()
    exif[0x0112] = 6
    more = {"exif": exif} if kind in ("PNG", "JPEG", "WEBP", "TIFF") else {}
    whole = encoded(Image.effect_noise((24, 20), 40).convert("RGB"), kind, **more)
    refused = 0
    for _ in range(200):
        data = bytearray(whole)
        for _ in range(rng.randint(1, 6)):
            data[rng.randrange(min(len(data), 400))] = rng.randrange(256)
        cut = bytes(data[: rng.randint(1, len(data))] if rng.random() < 0.3 else data)
        try:
            assert open_bytes(cut, name="x", file=FILE, row=3).mode == "RGB"
        except DataError:
            refused += 1
    assert refused > 20
