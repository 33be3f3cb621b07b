"""The code blocks of docs/howto/add_rollout.md do what the page says."""

from __future__ import annotations

import re
import sys
import types
from pathlib import Path

import numpy as np
import pytest
from hydra import compose
from tests.tiny import picture

from groundrl.config.compose import composing
from groundrl.config.locate import located
from groundrl.config.registry import load_all
from groundrl.learner.experience import from_rollouts
from groundrl.rollout.collect import Collector
from groundrl.rollout.engines.scripted import ScriptedEngine
from groundrl.types import Role, Rollout, RolloutStatus, Sample, Segment, Task, Truth

PAGE = Path(__file__).resolve().parents[3] / "docs" / "howto" / "add_rollout.md"


def block(language: str) -> str:
    (text,) = re.findall(rf"```{language}\n(.*?)```", PAGE.read_text("utf-8"), flags=re.S)
    return text


def test_the_two_files_make_a_rollout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tiny_policy) -> None:
    load_all()
    module = types.ModuleType("groundrl.rollout.second_look")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    exec(compile(block("python"), str(PAGE), "exec"), module.__dict__)
    (tmp_path / "rollout").mkdir()
    (tmp_path / "rollout" / "second_look.yaml").write_text(block("yaml"), encoding="utf-8")
    with composing():
        words = ["rollout=second_look", f"hydra.searchpath=[file://{tmp_path}]"]
        config = located(compose("config", overrides=words))
    processor = tiny_policy.processor

    def script(request, number: int, index: int) -> str:
        asked = processor.tokenizer.decode(request.prompt_ids.tolist())
        return "second" if "Look again" in asked else "first"

    engine = ScriptedEngine(script, processor)
    kind = config.rollout.build_kind(processor)
    collector = Collector(engine, processor, config.prompt.build(), kind)
    sample = Sample(
        id="a", task=Task.rec, images=(picture((112, 112), 0),), truth=Truth(), question="red circle"
    )
    rollouts = collector.collect([sample], 2, config.rollout.sampling(), seed=(0,))
    assert [one.text for one in rollouts] == ["second", "second"]
    assert [one.status for one in rollouts] == [RolloutStatus.FINISHED] * 2
    for rollout in rollouts:
        assert [said.text for said in rollout.said] == ["first", "second"]
        (segment,) = rollout.segments
        sampled = sum(said.tokens for said in rollout.said)
        assert int((segment.roles == Role.STUDENT).sum()) == sampled
        assert set(segment.roles.tolist()) == {int(Role.STUDENT), int(Role.PROMPT)}


def test_the_roles_on_the_page_are_the_roles_there_are() -> None:
    """And the loss counts those that the page says it does."""
    rows = re.findall(r"^\| (`[A-Z`, ]+`) \|.*\| (yes|no) \|$", PAGE.read_text("utf-8"), flags=re.M)
    told = {name: counted == "yes" for names, counted in rows for name in re.findall(r"[A-Z]+", names)}
    assert set(told) == {role.name for role in Role}
    roles = np.array(list(Role), dtype=np.int8)
    zeros = np.zeros(len(roles), dtype=np.int64)
    segment = Segment(
        prompt_ids=zeros, images=(), response_ids=zeros, roles=roles,
        behaviour_logprobs=zeros.astype(np.float32),
    )  # fmt: skip
    rollout = Rollout(
        sample_id="a", group=0, index=0, segments=[segment], status=RolloutStatus.FINISHED, text="",
        frames=(),
    )  # fmt: skip
    (row,) = from_rollouts([rollout], np.ones(1), np.ones(1, dtype=bool))
    assert row.selected.tolist() == [told[role.name] for role in Role]
