"""The shipped checkpoints are the ones their records and card describe."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from groundrl.models.tiny.tokenizer import build_tokenizer

FOLDER = Path(__file__).resolve().parents[3] / "assets" / "tiny-vlm" / "v1"
NAMES = ("rec-clean", "rec-start", "ovd-clean", "ovd-start")


def record(name: str) -> dict[str, Any]:
    return json.loads((FOLDER / f"build-{name.split('-')[0]}.json").read_text("utf-8"))


@pytest.mark.parametrize("name", NAMES)
def test_weights_are_those_of_the_record(name: str) -> None:
    digest = hashlib.sha256((FOLDER / name / "model.safetensors").read_bytes()).hexdigest()
    assert digest == record(name)["checkpoints"][name]["sha256"]


@pytest.mark.parametrize("name", NAMES)
def test_size_and_parts(name: str) -> None:
    assert 600_000 <= record(name)["parameters"] <= 800_000
    assert (FOLDER / name / "model.safetensors").stat().st_size < 2_000_000
    files = {file.name for file in (FOLDER / name).iterdir()}
    assert {"config.json", "tokenizer.json", "preprocessor_config.json", "chat_template.jinja"} <= files
    assert not any(file.endswith((".bin", ".pt", ".pkl")) for file in files)


def test_all_share_one_tokenizer() -> None:
    assert len({(FOLDER / name / "tokenizer.json").read_bytes() for name in NAMES}) == 1


def test_the_card_says_what_was_planted() -> None:
    card = (FOLDER / "README.md").read_text("utf-8")
    for words in ("loose boxes", "false boxes", "further attempts", "783,296", "What they are bad at"):
        assert words in card
    for name in NAMES:
        assert f"`{name}`" in card


def test_the_tokenizer_is_rebuilt_to_the_byte(tmp_path: Path) -> None:
    build_tokenizer().save_pretrained(tmp_path)
    assert (tmp_path / "tokenizer.json").read_bytes() == (
        FOLDER / "rec-start" / "tokenizer.json"
    ).read_bytes()
