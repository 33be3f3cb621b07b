"""What tells one start checkpoint from another."""

from __future__ import annotations

import hashlib
import json
import shutil
from pathlib import Path

import pytest

from groundrl.models import fingerprint
from groundrl.models.fingerprint import start_fingerprint

HEADER = json.dumps({"w": {"dtype": "U8", "shape": [3], "data_offsets": [0, 3]}}).encode()
WEIGHTS = len(HEADER).to_bytes(8, "little") + HEADER + b"abc"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    place = tmp_path / "model"
    place.mkdir()
    (place / "model.safetensors").write_bytes(WEIGHTS)
    (place / "tokenizer.json").write_bytes(b"{}")
    (place / "README.md").write_text("a card")
    return place


def test_the_bytes_that_are_hashed(folder: Path) -> None:
    """Name, size and content of the weights, then of the tokenizer files."""
    plain = b"model.safetensors\0%d\0" % len(WEIGHTS) + WEIGHTS + b"tokenizer.json\0" + b"2\0{}"
    assert start_fingerprint(folder, folder) == f"sha256:{hashlib.sha256(plain).hexdigest()}"


def test_one_byte_of_weights_or_tokenizer_changes_it_and_a_card_does_not(folder: Path) -> None:
    first = start_fingerprint(folder, folder)
    (folder / "README.md").write_text("another card")
    shutil.copytree(folder, folder.with_name("moved"))
    assert start_fingerprint(folder.with_name("moved"), folder) == first
    (folder / "tokenizer.json").write_bytes(b"[]")
    other = start_fingerprint(folder, folder)
    (folder / "model.safetensors").write_bytes(WEIGHTS[:-1] + b"d")
    assert len({first, other, start_fingerprint(folder, folder)}) == 3


def test_large_weights_are_told_apart_by_their_headers(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fingerprint, "WHOLE_LIMIT", len(WEIGHTS) - 1)
    first = start_fingerprint(folder, folder)
    assert first.startswith("sha256-headers:")
    (folder / "model.safetensors").write_bytes(WEIGHTS[:-1] + b"d")
    assert start_fingerprint(folder, folder) == first
    (folder / "model.safetensors").write_bytes(WEIGHTS.replace(b"U8", b"I8"))
    assert start_fingerprint(folder, folder) != first
    monkeypatch.setattr(fingerprint, "WHOLE_LIMIT", len(WEIGHTS))
    assert start_fingerprint(folder, folder).startswith("sha256:")


def test_a_header_that_claims_too_much_is_no_error(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fingerprint, "WHOLE_LIMIT", 0)
    (folder / "model.safetensors").write_bytes(b"\xff" * 12)
    assert start_fingerprint(folder, folder).startswith("sha256-headers:")
