"""A checkout with one sweep of two rewards and a scale with twins."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from pathlib import Path

import pytest
from omegaconf import DictConfig
from tests.unit.sweeping.checkout import Checkout

from groundrl.config.compose import compose_words

SCALE = """
words: [eval.samples=4]
twins:
  model: {qwen3b: tiny, qwen7b: {not_testable: no tiny model is that large}}
ids:
  other: {model: {qwen3b: tiny_ovd}}
"""

_composed: dict[tuple[str, ...], DictConfig] = {}


def compose_once(words: Sequence[str], *, with_hydra: bool = False) -> DictConfig:
    """`compose_words`, which is most of these tests' time, remembered: conf/ does not change meanwhile."""
    key = (*words, str(with_hydra))
    if key not in _composed:
        _composed[key] = compose_words(words, with_hydra=with_hydra)
    return copy.deepcopy(_composed[key])


@pytest.fixture(autouse=True)
def _compose_once(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("groundrl.sweeping.cells", "groundrl.config.entry", "tests.unit.sweeping.checkout"):
        monkeypatch.setattr(f"{module}.compose_words", compose_once)


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    made = Checkout(root=tmp_path)
    made.write("sweeps/scales/tiny.yaml", SCALE)
    made.sweep("pair", "model: {value: qwen3b}\nreward: {values: [ap, odlength]}\nseed: {values: [0]}")
    return made
