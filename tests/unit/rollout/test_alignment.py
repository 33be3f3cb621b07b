"""Who meets whose truth: prompts, completions, rewards, advantages and rows stay together."""

from __future__ import annotations

import json
from dataclasses import dataclass

import numpy as np
import pytest
from tests.tiny import picture

from groundrl.advantages.group_norm import GroupNormConfig
from groundrl.data.sampler import Sampler
from groundrl.learner.algorithms import GRPOConfig
from groundrl.learner.experience import from_rollouts
from groundrl.prompting.prompt import PromptConfig
from groundrl.rewards.grader import Grader
from groundrl.rewards.iou import IouConfig
from groundrl.rewards.rubric import Rubric
from groundrl.rollout.collect import Collector
from groundrl.rollout.engines.base import Request, Sampling
from groundrl.rollout.engines.scripted import ScriptedEngine
from groundrl.rollout.single_turn import SingleTurn
from groundrl.training.clock import StageClock
from groundrl.training.grpo import GRPO
from groundrl.types import LabeledBox, Missing, Rollout, RolloutStatus, Sample, Scored, Task, Truth

SAMPLING = Sampling(temperature=1.0, max_new_tokens=64)
BOXES = {
    "red": (0.0, 0.0, 28.0, 28.0),
    "blue": (84.0, 84.0, 112.0, 112.0),
    "green": (0.0, 84.0, 28.0, 112.0),
    "purple": (84.0, 0.0, 112.0, 28.0),
}
"""Boxes that do not touch: another sample's truth has IoU 0."""


def sample(colour: str) -> Sample:
    return Sample(
        id=colour,
        task=Task.rec,
        images=(picture((112, 112), len(colour)),),
        truth=Truth(boxes=(LabeledBox(xyxy=BOXES[colour], label=colour),)),
        question=f"{colour} circle",
    )


@dataclass
class Source:
    colours: tuple[str, ...]

    @property
    def size(self) -> int:
        return len(self.colours)

    def sample(self, index: int) -> Sample:
        return sample(self.colours[index])

    def tasks(self) -> frozenset[Task]:
        return frozenset({Task.rec})

    def fingerprint(self) -> str:
        return "four corners"


def written(box) -> str:
    return f"<think>x</think><answer>{json.dumps({'bbox_2d': [round(v) for v in box]})}</answer>"


def method(policy, script, *, colours=("red", "blue"), group_size=2, rubric=None, kind=None) -> GRPO:
    engine = ScriptedEngine(script, policy.processor)
    collector = Collector(engine, policy.processor, PromptConfig().build(), kind or SingleTurn())
    config = GRPOConfig(prompts_per_step=len(colours), group_size=group_size, num_steps=10)
    return GRPO(
        config,
        sampler=Sampler(Source(colours), seed=3),
        collector=collector,
        grader=Grader(rubric or Rubric({"iou": IouConfig().build()}, {"iou": 1.0}, task=Task.rec)),
        advantage=GroupNormConfig().build(),
        sampling=SAMPLING,
        seed=0,
    )


def asked(policy, request: Request) -> str:
    """The colour a prompt asks for, read from its ids alone."""
    text = policy.processor.decode(request.prompt_ids)
    (colour,) = [name for name in BOXES if name in text]
    return colour


def test_b26_no_reward_meets_another_samples_truth(tiny_policy) -> None:
    """Completion 0 answers its own prompt, completion 1 answers with the box of the other sample."""

    def script(request: Request, number: int, index: int) -> str:
        own = asked(tiny_policy, request)
        other = {"red": "blue", "blue": "red"}[own]
        return written(BOXES[own] if index == 0 else BOXES[other])

    gathered = method(tiny_policy, script).gather(0, StageClock())
    assert [(g.rollout.sample_id, g.rollout.group, g.rollout.index) for g in gathered.scored] == [
        (g.sample.id, n // 2, n % 2) for n, g in enumerate(gathered.scored)
    ]
    assert {g.sample.id for g in gathered.scored} == {"red", "blue"}
    assert [g.breakdown.total for g in gathered.scored] == [1.0, 0.0, 1.0, 0.0]
    for entry in gathered.scored:
        said = BOXES[entry.sample.id] if entry.rollout.index == 0 else None
        if said:
            assert entry.answer.boxes[0].xyxy == said

    assert len(gathered.experience) == 4
    for n, (row, entry) in enumerate(zip(gathered.experience, gathered.scored, strict=True)):
        prompt = tiny_policy.processor.decode(row.row.prompt)
        assert f"{entry.sample.id} circle" in prompt
        assert tiny_policy.processor.decode(row.row.completion) == entry.rollout.text
        assert row.row.images is entry.rollout.segments[0].images
        assert row.rollout == n
        assert np.sign(row.advantage) == (1 if n % 2 == 0 else -1)
        assert row.selected.all()
    assert gathered.metrics["group/zero_spread_frac"] == 0.0
    assert gathered.metrics["reward/iou"] == 0.5


def test_b26_sibling_four_groups_of_three_with_partial_overlaps(tiny_policy) -> None:
    """Completion k is shifted by 7 k pixels, so rewards fall inside every group in the same way."""

    def script(request: Request, number: int, index: int) -> str:
        x1, y1, x2, y2 = BOXES[asked(tiny_policy, request)]
        step = 7 * index if x1 == 0 else -7 * index
        return written((x1 + step, y1, x2 + step, y2))

    gathered = method(tiny_policy, script, colours=tuple(BOXES), group_size=3).gather(0, StageClock())
    totals = np.array([g.breakdown.total for g in gathered.scored]).reshape(4, 3)
    np.testing.assert_allclose(totals, [[1.0, 21 / 35, 14 / 42]] * 4)
    advantages = np.array([row.advantage for row in gathered.experience]).reshape(4, 3)
    values = np.array([1.0, 0.6, 1 / 3])
    wanted = (values - values.mean()) / (values.std(ddof=1) + 1e-4)
    np.testing.assert_allclose(advantages, [wanted] * 4, rtol=1e-9)


class Unknown:
    """A term that cannot score one completion, as a judge that never answered."""

    tasks = frozenset({Task.rec})
    needs = ()

    def score(self, rollout: Rollout, sample: Sample, context) -> Scored | Missing:
        if rollout.group == 0 and rollout.index == 1:
            return Missing("no answer")
        return Scored(float(rollout.index))


def test_a_missing_reward_leaves_the_batch_and_nobody_moves_up(tiny_policy) -> None:
    def script(request: Request, number: int, index: int) -> str:
        return f"<answer>{asked(tiny_policy, request)} {index}</answer>"

    rubric = Rubric({"judge": Unknown()}, {"judge": 1.0}, task=Task.rec)
    gathered = method(tiny_policy, script, group_size=3, rubric=rubric).gather(0, StageClock())
    assert [row.rollout for row in gathered.experience] == [0, 2, 3, 4, 5]
    texts = [tiny_policy.processor.decode(row.row.completion) for row in gathered.experience]
    first, second = gathered.scored[0].sample.id, gathered.scored[3].sample.id
    assert texts == [
        f"<answer>{name} {index}</answer>"
        for name, index in ((first, 0), (first, 2), (second, 0), (second, 1), (second, 2))
    ]
    advantages = [row.advantage for row in gathered.experience]
    half = 1 / (2**0.5 + 1e-4)  # rewards 0 and 2: std sqrt(2)
    assert advantages == pytest.approx([-half, half, -1 / 1.0001, 0.0, 1 / 1.0001])
    assert gathered.metrics["group/missing_frac"] == pytest.approx(1 / 6)


def test_equal_rewards_give_rows_without_advantage(tiny_policy) -> None:
    gathered = method(tiny_policy, lambda request, number, index: "<answer>None</answer>").gather(
        0, StageClock()
    )
    assert [row.advantage for row in gathered.experience] == [0.0] * 4
    assert gathered.metrics["group/zero_spread_frac"] == 1.0


def test_truncated_answers_are_flagged_and_kept(tiny_policy) -> None:
    def script(request: Request, number: int, index: int) -> str:
        return written(BOXES[asked(tiny_policy, request)]) if index == 0 else "red " * 200

    gathered = method(tiny_policy, script).gather(0, StageClock())
    statuses = [g.rollout.status for g in gathered.scored]
    assert statuses == [RolloutStatus.FINISHED, RolloutStatus.TRUNCATED_LENGTH] * 2
    assert [len(row.row.completion) for row in gathered.experience][1::2] == [64, 64]
    assert gathered.metrics["rollout/truncated_frac"] == 0.5


def test_seeds_name_the_place_of_a_completion(tiny_policy) -> None:
    """Another step, group or index draws other numbers; the same place draws the same again."""
    seen: list[tuple[int, ...]] = []

    def script(request: Request, number: int, index: int) -> str:
        if index == 0:
            seen.append(request.seeds)
        return "x"

    made = method(tiny_policy, script, group_size=4)
    for step in (0, 1, 0):
        made.gather(step, StageClock())
    first, second, again = set(seen[0] + seen[1]), set(seen[2] + seen[3]), set(seen[4] + seen[5])
    assert len(first) == len(second) == 8
    assert not first & second
    assert first == again


def test_advantages_follow_rollouts_not_rows() -> None:
    """from_rollouts: two segments share their rollout's advantage; an invalid rollout has no row."""
    from groundrl.types import Role, Segment

    def segment(*ids: int) -> Segment:
        return Segment(
            prompt_ids=np.array([1]),
            images=(),
            response_ids=np.array(ids),
            roles=np.array([Role.STUDENT, Role.OBSERVATION, Role.STUDENT][: len(ids)], dtype=np.int8),
            behaviour_logprobs=np.zeros(len(ids), dtype=np.float32),
        )

    def rollout(*segments: Segment) -> Rollout:
        return Rollout(
            sample_id="s",
            group=0,
            index=0,
            segments=list(segments),
            status=RolloutStatus.FINISHED,
            text="",
            frames=(),
        )

    rows = from_rollouts(
        [rollout(segment(5, 6, 7), segment(8)), rollout(segment(9)), rollout(segment(10, 11))],
        np.array([0.5, 9.0, -0.5]),
        np.array([True, False, True]),
    )
    assert [(row.rollout, row.advantage, row.row.completion.tolist()) for row in rows] == [
        (0, 0.5, [5, 6, 7]),
        (0, 0.5, [8]),
        (2, -0.5, [10, 11]),
    ]
    assert [row.selected.tolist() for row in rows] == [[True, False, True], [True], [True, False]]
