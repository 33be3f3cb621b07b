"""The shipped checkpoints are the ones their records and card describe."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from groundrl.models.tiny.recipes import VERSIONS
from groundrl.models.tiny.tokenizer import build_tokenizer

ASSETS = Path(__file__).resolve().parents[3] / "assets" / "tiny-vlm"
NAMES = [
    f"v{version}/{step.name}"
    for version, lines in VERSIONS.items()
    for size, line in lines.items()
    for step in line.steps
    if (ASSETS / f"v{version}" / f"build-{size}.json").is_file()
]
"""All that are built; the card says which sizes are not."""
PARAMETERS = {"s": (700_000, 850_000), "m": (1_250_000, 1_550_000), "l": (2_600_000, 3_000_000)}


def record(name: str) -> dict[str, Any]:
    version, step = name.split("/")
    return json.loads((ASSETS / version / f"build-{step.split('-')[0]}.json").read_text("utf-8"))


@pytest.mark.parametrize("name", NAMES)
def test_weights_are_those_of_the_record(name: str) -> None:
    digest = hashlib.sha256((ASSETS / name / "model.safetensors").read_bytes()).hexdigest()
    assert digest == record(name)["checkpoints"][name.split("/")[1]]["sha256"]


@pytest.mark.parametrize("name", NAMES)
def test_size_and_parts(name: str) -> None:
    low, high = PARAMETERS.get(name.split("/")[1][0], PARAMETERS["s"])
    assert low <= record(name)["parameters"] <= high
    assert (ASSETS / name / "model.safetensors").stat().st_size < 2 * high + 100_000
    files = {file.name for file in (ASSETS / name).iterdir()}
    assert {"config.json", "tokenizer.json", "preprocessor_config.json", "chat_template.jinja"} <= files
    assert not any(file.endswith((".bin", ".pt", ".pkl")) for file in files)


@pytest.mark.parametrize("version", [one for one in VERSIONS if (ASSETS / f"v{one}").is_dir()])
def test_all_of_a_version_share_one_tokenizer(version: int, tmp_path: Path) -> None:
    """The one that is rebuilt today, to the byte."""
    own = [name for name in NAMES if name.startswith(f"v{version}/")]
    (text,) = {(ASSETS / name / "tokenizer.json").read_bytes() for name in own}
    build_tokenizer(version).save_pretrained(tmp_path)
    assert (tmp_path / "tokenizer.json").read_bytes() == text


@pytest.mark.parametrize(
    ("version", "words"),
    [
        (1, ("loose boxes", "false boxes", "further attempts", "783,296")),
        (2, ("false boxes", "further attempts", "grid step", "without tags")),
    ],
)
def test_the_card_says_what_was_planted(version: int, words: tuple[str, ...]) -> None:
    card = (ASSETS / f"v{version}" / "README.md").read_text("utf-8")
    for word in (*words, "What they are bad at"):
        assert word in card
    for name in NAMES:
        if name.startswith(f"v{version}/"):
            assert f"`{name.split('/')[1]}`" in card
