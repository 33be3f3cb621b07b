"""A skipped step: its batch is kept, and the rows that are not finite are named."""

from __future__ import annotations

import copy
import json
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.tiny import ask, experience, learner
from tests.unit.learner.test_updates import Poisoned
from tests.unit.rollout.test_alignment import sample

from groundrl.errors import NonFiniteError
from groundrl.learner.config import OptimConfig
from groundrl.learner.nonfinite import Skipped, faults_of
from groundrl.rewards.graded import Graded
from groundrl.rewards.grader import Grader
from groundrl.rewards.iou import IouConfig
from groundrl.rewards.rubric import Rubric
from groundrl.rollout.written import written_rollout
from groundrl.training.method import Gathered
from groundrl.training.nonfinite import store_skipped
from groundrl.types import ImageFrame, Task
from groundrl.world import World

COLOURS = ("red", "blue", "green")


@dataclass
class Where:
    """What `store_skipped` looks at of the parts of a run."""

    path: Path
    step: int
    world: World

    @property
    def folder(self) -> Where:
        return self

    @property
    def state(self) -> Where:
        return self


def graded() -> list[Graded]:
    """Rollout n is of sample n, group 5, index n."""
    rubric = Rubric({"iou": IouConfig().build()}, {"iou": 1.0}, task=Task.rec)
    frame = ImageFrame(original=(112, 112), processed=(112, 112))
    pairs = [(written_rollout(name, f"answer of {name}", [frame], index=n), sample(name))
             for n, name in enumerate(COLOURS)]  # fmt: skip
    out = list(Grader(rubric).grade(pairs))
    for entry in out:
        entry.rollout.group = 5
    return out


@pytest.fixture
def blind(fresh_policy) -> Any:
    """A policy that gives nan where it looks at a picture."""
    with torch.no_grad():
        fresh_policy.model.model.visual.merger.mlp[0].weight.fill_(float("nan"))
    return fresh_policy


def rows(policy: Any) -> list[Any]:
    """Three rows, of which only the second has a picture; the third row is rollout 2's."""
    texts, picture = ask(policy.processor, "x"), ask(policy.processor, "x", [(56, 84)])
    return experience(
        policy.processor, [texts, picture, texts], lengths=(3, 4, 2), advantages=(1.0, -1.0, 0.5)
    )


def lines(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text("utf-8").splitlines()]


@pytest.mark.parametrize("micro", [1, 64])
def test_one_bad_row_is_named_among_good_ones(blind, tmp_path: Path, caplog, micro: int) -> None:
    made = learner(blind.model, blind.processor, optim=OptimConfig(micro_batch=micro))
    batch = rows(blind)
    gathered = Gathered(experience=batch, metrics={}, own=graded())
    where: Any = Where(path=tmp_path, step=11, world=World())
    made.on_skip = partial(store_skipped, where, gathered)
    assert made.step(batch)["learner/skipped"] == 1.0
    stored = lines(tmp_path / "nonfinite" / "step-000012.jsonl")
    assert [one["not_finite"] for one in stored] == [[], ["log-prob", "loss"], []]
    assert [(one["sample_id"], one["group"], one["index"]) for one in stored] == [
        ("red", 5, 0), ("blue", 5, 1), ("green", 5, 2),
    ]  # fmt: skip
    for one, row, name in zip(stored, batch, COLOURS, strict=True):
        assert one["text"] == f"answer of {name}"
        assert one["token_ids"] == row.row.completion.tolist()
        assert one["prompt_ids"] == row.row.prompt.tolist()
        assert (one["advantage"], one["step"], one["update"], one["lag"]) == (row.advantage, 12, 1, 0)
        assert set(one["terms"]) == {"iou"}
    (message,) = caplog.messages
    assert message == (
        "step 12: loss or gradient not finite, update 1 skipped: blue (group 5, index 1: log-prob and loss) "
        "(all 3 rows in nonfinite/step-000012.jsonl)"
    )


def test_several_updates_of_a_step_and_the_same_step_again(blind, tmp_path: Path) -> None:
    """Two passes are two lines a row; a resumed run that comes to the step again does not double them."""
    batch = rows(blind)
    gathered = Gathered(experience=batch, metrics={}, own=graded())
    where: Any = Where(path=tmp_path, step=0, world=World())
    for _ in range(2):
        made = learner(blind.model, blind.processor, num_iterations=2)
        made.on_skip = partial(store_skipped, where, gathered)
        made.step(batch)
        stored = lines(tmp_path / "nonfinite" / "step-000001.jsonl")
        assert [one["update"] for one in stored] == [1, 1, 1, 2, 2, 2]


def test_the_batch_that_ends_the_run_is_kept_too(blind, tmp_path: Path) -> None:
    made = learner(blind.model, blind.processor, optim=OptimConfig(max_nonfinite=1))
    batch = rows(blind)
    where: Any = Where(path=tmp_path, step=0, world=World())
    made.on_skip = partial(store_skipped, where, Gathered(experience=batch, metrics={}))
    with pytest.raises(NonFiniteError):
        made.step(batch)
    stored = lines(tmp_path / "nonfinite" / "step-000001.jsonl")  # supervised: rows without a rollout
    assert [(one["rollout"], bool(one["not_finite"])) for one in stored] == [
        (0, False),
        (1, True),
        (2, False),
    ]


def test_looking_does_not_change_what_follows(fresh_policy) -> None:
    """The skipped step and the next one are the same with and without somebody who asks."""
    results = []
    for asks in (False, True):
        policy = replace(fresh_policy, model=copy.deepcopy(fresh_policy.model))
        poisoned: Any = Poisoned({0})
        made = learner(policy.model, policy.processor, objective=poisoned)
        seen: list[Skipped] = []
        made.on_skip = seen.append if asks else None
        batch = rows(policy)
        made.step(batch)
        assert [list(one.faults) for one in seen] == ([[()] * 3] if asks else [])  # no row by itself
        assert all(p.grad is None for p in policy.model.parameters())
        made.step(batch)
        results.append({n: p.detach().clone() for n, p in policy.model.named_parameters()})
    assert all(torch.equal(value, results[1][name]) for name, value in results[0].items())


def test_a_gradient_that_is_not_finite_is_found_behind_a_finite_loss() -> None:
    """d sqrt(x) / dx at 0 is infinite."""
    weight = torch.nn.Parameter(torch.zeros(2))
    other = torch.nn.Parameter(torch.ones(1))
    root = torch.sqrt(weight).sum()
    assert faults_of(root[None], root, [weight, other]) == ("gradient",)
    assert faults_of(root[None], root, []) == ()
    fine = (weight * other).sum()
    assert faults_of(fine[None], fine, [weight, other]) == ()
    bad = fine * float("inf")
    assert faults_of(fine[None], bad, [weight]) == ("loss",)
    assert faults_of(torch.tensor([0.0, float("-inf")]), fine, [weight]) == ("log-prob",)
