"""Tables of the library `datasets`, as tests write them."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from groundrl.types import Sample

library: Any = pytest.importorskip("datasets")


def png(size: tuple[int, int], colour: tuple[int, int, int] = (9, 8, 7)) -> bytes:
    made = io.BytesIO()
    Image.new("RGB", size, colour).save(made, "PNG")
    return made.getvalue()


def image(number: int) -> dict[str, Any]:
    return {"bytes": png((30 + number, 20)), "path": None}


def question(number: int, **more: Any) -> dict[str, Any]:
    return {
        "id": f"r{number}",
        "question": f"q{number}",
        "answer": str(number),
        "image": image(number),
    } | more


def questions(count: int, **changed: Any) -> Any:
    """`count` rows, row i with an image of 30 + i x 20; `changed`: answers by number, as r3="many"."""
    rows = [question(n, answer=changed.get(f"r{n}", str(n))) for n in range(count)]
    features = {name: library.Value("string") for name in ("id", "question", "answer")}
    return library.Dataset.from_list(rows, features=library.Features(features | {"image": library.Image()}))


def parquet(folder: Path, **tables: Any) -> str:
    """A folder with a Parquet file a split."""
    place = folder / "set"
    place.mkdir(exist_ok=True)
    for split, table in tables.items():
        table.to_parquet(str(place / f"{split}-00000-of-00001.parquet"))
    return str(place)


def seen(sample: Sample) -> tuple[str, str, str | None, list[tuple[int, int]]]:
    return sample.id, sample.question, sample.truth.answer, [one.size for one in sample.images]
