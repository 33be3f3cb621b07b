"""Known kinds of bug about images: shapes, modes, orientation, places, and files that are not there."""

from __future__ import annotations

import io
import json
import logging
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from groundrl.data.base import Split
from groundrl.data.images import open_bytes, open_image
from groundrl.data.qa import QaConfig
from groundrl.data.rows import OnError, RowSamples
from groundrl.data.vlm_r1 import VlmR1Config
from groundrl.errors import DataError
from groundrl.models.load import Policy
from groundrl.types import ImagePart, Task, TextPart

HERE = Path("rows.jsonl")


def rec(folder: Path, *rows: tuple[str, list[int]], on_error: OnError = OnError.raise_) -> RowSamples:
    """A file of referring expressions: an image and its box each."""
    file = folder / "rec.jsonl"
    turns = ({"from": "human", "value": "<image>the cat"}, {"from": "gpt"})
    made = [
        {"image": image, "conversations": [turns[0], turns[1] | {"value": str(box)}]} for image, box in rows
    ]
    file.write_text("\n".join(json.dumps(row) for row in made), encoding="utf-8")
    config = VlmR1Config(path=str(file), heldout_path=str(file), task=Task.rec, on_error=on_error)
    return config.build(Split.TRAIN)


def seen(image: Image.Image, folder: Path, name: str = "x.png", **more: Any) -> Image.Image:
    image.save(folder / name, **more)
    return open_image(name, folder, file=HERE, row=1)


def test_b43_tiny_images_keep_their_own_pixels_as_the_space_of_boxes(
    tmp_path: Path, tiny_policy: Policy
) -> None:
    Image.new("RGB", (10, 12)).save(tmp_path / "tiny.png")
    sample = rec(tmp_path, ("tiny.png", [1, 2, 9, 12])).sample(0)
    assert sample.images[0].size == (10, 12)
    assert sample.truth.boxes[0].xyxy == (1.0, 2.0, 9.0, 12.0)
    frame = tiny_policy.processor.prepare(sample.images[0]).frame
    assert frame.original == (10, 12)
    assert min(frame.processed) >= 28  # made larger, both sizes recorded


@pytest.mark.parametrize("size", [(1, 400), (400, 1), (201, 1)])
def test_b43_sibling_extreme_shapes_are_a_named_error_from_file_and_from_bytes(
    tmp_path: Path, size: tuple[int, int]
) -> None:
    problem = f"is {size[0]} x {size[1]}: more than 200 to 1"
    with pytest.raises(DataError, match=problem):
        seen(Image.new("RGB", size), tmp_path)
    with pytest.raises(DataError, match=problem):
        open_bytes((tmp_path / "x.png").read_bytes(), name="x", file=HERE, row=1)


def test_b44_an_image_does_not_depend_on_the_one_before_it(tmp_path: Path, tiny_policy: Policy) -> None:
    rng = np.random.default_rng(0)
    for name, size in (("small.png", (20, 40)), ("large.png", (640, 480))):
        Image.fromarray(rng.integers(0, 256, (size[1], size[0], 3), dtype=np.uint8)).save(tmp_path / name)
    source = rec(tmp_path, ("small.png", [0, 0, 20, 40]), ("large.png", [0, 0, 640, 480]))
    alone = tiny_policy.processor.prepare(source.sample(1).images[0])
    tiny_policy.processor.prepare(source.sample(0).images[0])
    after = tiny_policy.processor.prepare(source.sample(1).images[0])
    assert after.frame == alone.frame
    assert after.frame.original == (640, 480)
    assert after.grid_thw == alone.grid_thw
    assert np.array_equal(after.patches, alone.patches)


def test_b44_sibling_two_images_of_one_row_keep_their_own_sizes(tmp_path: Path) -> None:
    Image.new("RGB", (20, 40)).save(tmp_path / "a.png")
    Image.new("RGB", (64, 48)).save(tmp_path / "b.png")
    file = tmp_path / "q.jsonl"
    file.write_text('{"question": "Which?", "answer": 1, "image": ["b.png", "a.png"]}')
    sample = QaConfig(path=str(file), heldout_path=str(file)).build(Split.TRAIN).sample(0)
    assert [image.size for image in sample.images] == [(64, 48), (20, 40)]


def turned(orientation: int) -> Image.Exif:
    exif = Image.Exif()
    exif[0x0112] = orientation
    return exif


def test_b46_orientation_is_applied_before_sizes_and_boxes_mean_anything(tmp_path: Path) -> None:
    """Orientation 6: to be turned clockwise by 90 degrees. The stored left edge is then the top."""
    stored = Image.new("RGB", (640, 480), (0, 0, 255))
    stored.paste((255, 0, 0), (0, 0, 64, 480))
    stored.save(tmp_path / "x.jpg", exif=turned(6), quality=95)
    sample = rec(tmp_path, ("x.jpg", [0, 0, 480, 640])).sample(0)
    image = sample.images[0]
    assert image.size == (480, 640)
    top, bottom = image.getpixel((240, 10)), image.getpixel((240, 600))
    assert isinstance(top, tuple)
    assert isinstance(bottom, tuple)
    assert top[0] > 200 > 50 > top[2]
    assert bottom[2] > 200 > 50 > bottom[0]
    with pytest.raises(DataError, match="outside its 480 x 640 image"):
        rec(tmp_path, ("x.jpg", [0, 0, 640, 480])).sample(0)


@pytest.mark.parametrize(
    ("orientation", "size"), [(1, (64, 48)), (3, (64, 48)), (5, (48, 64)), (8, (48, 64))]
)
def test_b46_sibling_every_turn_in_png_webp_and_bytes(
    tmp_path: Path, orientation: int, size: tuple[int, int]
) -> None:
    for name in ("x.png", "x.webp", "x.jpg"):
        image = seen(Image.new("RGB", (64, 48)), tmp_path, name, exif=turned(orientation))
        assert image.size == size
        data = (tmp_path / name).read_bytes()
        assert open_bytes(data, name=name, file=HERE, row=1).size == size


def test_b47_grey_and_transparency_become_rgb_over_white(tmp_path: Path) -> None:
    """Half transparent black over white: 0 * 128/255 + 255 * 127/255 = 127."""
    for image, pixel in (
        (Image.new("L", (30, 30), 77), (77, 77, 77)),
        (Image.new("RGBA", (30, 30), (10, 20, 30, 255)), (10, 20, 30)),
        (Image.new("RGBA", (30, 30), (10, 20, 30, 0)), (255, 255, 255)),
        (Image.new("RGBA", (30, 30), (0, 0, 0, 128)), (127, 127, 127)),
    ):
        made = seen(image, tmp_path)
        assert (made.mode, made.getpixel((0, 0))) == ("RGB", pixel)


def test_b47_sibling_palette_bilevel_la_cmyk_and_16_bit(tmp_path: Path) -> None:
    """CMYK (0, 255, 255, 0) is red; 16-bit 25700 is 100 * 257."""
    palette = Image.new("P", (30, 30), 1)
    palette.putpalette([0, 0, 0, 200, 100, 50])
    deep = Image.fromarray(np.full((30, 30), 25700, dtype=np.uint16))
    assert seen(palette, tmp_path).getpixel((0, 0)) == (200, 100, 50)
    assert seen(palette, tmp_path, "t.png", transparency=1).getpixel((0, 0)) == (255, 255, 255)
    assert seen(Image.new("1", (30, 30), 1), tmp_path).getpixel((0, 0)) == (255, 255, 255)
    assert seen(Image.new("LA", (30, 30), (7, 0)), tmp_path).getpixel((0, 0)) == (255, 255, 255)
    assert seen(Image.new("CMYK", (30, 30), (0, 255, 255, 0)), tmp_path, "c.tif").getpixel((0, 0)) == (
        255,
        0,
        0,
    )
    assert seen(Image.new("RGB", (30, 30), (9, 9, 9)), tmp_path, "k.png", transparency=(9, 9, 9)).getpixel(
        (0, 0)
    ) == (255, 255, 255)
    assert seen(deep, tmp_path).getpixel((0, 0)) == (100, 100, 100)
    assert seen(deep, tmp_path, "d.tif").getpixel((0, 0)) == (100, 100, 100)


def test_b48_a_missing_image_is_an_error_or_a_counted_skip(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    Image.new("RGB", (30, 30)).save(tmp_path / "there.png")
    rows = (("there.png", [1, 1, 9, 9]), ("gone.png", [1, 1, 9, 9]), ("lost.png", [1, 1, 9, 9]))
    with pytest.raises(DataError, match=r"rec\.jsonl, row 2: image 'gone\.png' does not exist"):
        rec(tmp_path, *rows)
    with caplog.at_level(logging.WARNING):
        source = rec(tmp_path, *rows, on_error=OnError.skip)
    assert source.size == 1
    assert "2 rows were skipped; first" in caplog.text
    assert "gone.png" in caplog.text


@pytest.mark.parametrize("content", [b"", b"no image", b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff\xe0"])
def test_b48_sibling_a_corrupt_image_is_never_replaced(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "bad.png").write_bytes(content)
    with pytest.raises(DataError, match=r"rec\.jsonl, row 1: image bad\.png cannot be read"):
        rec(tmp_path, ("bad.png", [1, 1, 9, 9])).sample(0)
    whole = io.BytesIO()
    Image.effect_noise((64, 64), 50).save(whole, "PNG")
    with pytest.raises(DataError, match="image half cannot be read"):
        open_bytes(whole.getvalue()[:1500], name="half", file=HERE, row=1)


def test_b50_marks_in_the_middle_of_the_text_stay_there(tmp_path: Path, tiny_policy: Policy) -> None:
    """The prompt's ids hold the words and image tokens in the order of the row."""
    for name in ("a.png", "b.png"):
        Image.new("RGB", (56, 56)).save(tmp_path / name)
    turns = [{"from": "human", "value": "compare <image> with <image>"}, {"from": "gpt", "value": "same"}]
    file = tmp_path / "r.jsonl"
    file.write_text(json.dumps({"image": ["a.png", "b.png"], "conversations": turns}))
    sample = VlmR1Config(path=str(file), heldout_path=str(file)).build(Split.TRAIN).sample(0)
    processor = tiny_policy.processor
    ids = processor.render(sample.messages, [processor.prepare(image) for image in sample.images]).tolist()
    compare, middle = processor.encode("compare ").tolist(), processor.encode(" with ").tolist()
    images = [place for place, token in enumerate(ids) if token == processor.image_id]
    gap = next(place for place, after in pairwise(images) if after > place + 1)
    assert _starts(ids, compare)[0] < images[0]
    assert any(gap < start < images[-1] for start in _starts(ids, middle))


def _starts(ids: list[int], part: list[int]) -> list[int]:
    return [place for place in range(len(ids)) if ids[place : place + len(part)] == part]


def test_b50_sibling_questions_with_a_mark_inside_keep_it(tmp_path: Path) -> None:
    Image.new("RGB", (56, 56)).save(tmp_path / "a.png")
    file = tmp_path / "q.jsonl"
    file.write_text('{"question": "In <image>, how many?", "answer": 2, "image": "a.png"}')
    sample = QaConfig(path=str(file), heldout_path=str(file)).build(Split.TRAIN).sample(0)
    assert sample.messages[0].parts == (TextPart("In "), ImagePart(0), TextPart(", how many?"))
