"""The code blocks of docs/howto/add_reward.md do what the page says."""

from __future__ import annotations

import re
import sys
import types
from pathlib import Path

import numpy as np
import pytest
from hydra import compose
from PIL import Image

from groundrl.config.compose import composing
from groundrl.config.locate import located
from groundrl.config.registry import load_all
from groundrl.rollout.written import written_rollout
from groundrl.types import (
    ImageFrame,
    LabeledBox,
    Sample,
    Scored,
    Task,
    Truth,
)

PAGE = Path(__file__).resolve().parents[3] / "docs" / "howto" / "add_reward.md"


def block(language: str) -> str:
    (text,) = re.findall(rf"```{language}\n(.*?)```", PAGE.read_text("utf-8"), flags=re.S)
    return text


def test_the_two_files_make_a_reward(tmp_path: Path) -> None:
    load_all()
    module = types.ModuleType("groundrl.rewards.centre")
    sys.modules[module.__name__] = module
    try:
        exec(compile(block("python"), str(PAGE), "exec"), module.__dict__)
        (tmp_path / "reward").mkdir()
        (tmp_path / "reward" / "centre.yaml").write_text(block("yaml"), encoding="utf-8")
        with composing():
            words = ["reward=centre", f"hydra.searchpath=[file://{tmp_path}]"]
            config = located(compose("config", overrides=words))
        rubric = config.reward.build()
    finally:
        del sys.modules[module.__name__]
    frames = [ImageFrame(original=(30, 40), processed=(30, 40))]
    rollout = written_rollout("a", '<think></think><answer>{"bbox_2d": [13, 14, 33, 34]}</answer>', frames)
    truth = Truth(boxes=(LabeledBox(xyxy=(0.0, 0.0, 20.0, 20.0)),))
    sample = Sample(id="a", task=Task.rec, images=(Image.new("RGB", (30, 40)),), truth=truth, question="x")
    term = rubric.score(rollout, sample).terms["centre"]
    assert isinstance(term, Scored)
    # the box is clipped to 30 px: centres (21.5, 24) and (10, 10), diagonal 50
    assert term.value == pytest.approx(1 - np.hypot(11.5, 14) / 50)
    assert rubric.names == ("centre", "format")
