"""What the reward tests score: a hand-written completion, a truth, and the answers a policy could write."""

from __future__ import annotations

import json
from collections.abc import Mapping

import numpy as np

from groundrl.parsing.answer import parse_rollout
from groundrl.rewards.base import ScoreContext, TermConfig
from groundrl.types import (
    CoordinateSpace,
    ImageFrame,
    LabeledBox,
    Missing,
    Role,
    Rollout,
    RolloutStatus,
    Sample,
    Scored,
    Segment,
    Task,
    Truth,
)

FRAME = ImageFrame(original=(640, 480), processed=(640, 480))
CAT, DOG = ([0, 0, 100, 100], "cat"), ([200, 200, 300, 300], "dog")
FAR = [400, 400, 450, 450]


def sample_of(task, *boxes) -> Sample:
    truth = Truth(boxes=tuple(LabeledBox(xyxy=tuple(xyxy), label=label) for xyxy, label in boxes))
    return Sample(id="s", task=task, images=(), truth=truth)


def rollout_of(
    text, *, tokens=(), frames=(FRAME,), space=CoordinateSpace.PIXEL_ORIGINAL, status=RolloutStatus.FINISHED
) -> Rollout:
    """`tokens`: sampled tokens per turn; an observation of as many tokens follows each turn."""
    segments = [
        Segment(
            prompt_ids=np.zeros(3, dtype=np.int64),
            images=(),
            response_ids=np.zeros(2 * count, dtype=np.int64),
            roles=np.array([Role.STUDENT] * count + [Role.OBSERVATION] * count, dtype=np.int8),
            behaviour_logprobs=np.zeros(2 * count, dtype=np.float32),
            turn=turn,
        )
        for turn, count in enumerate(tokens)
    ]
    return Rollout(
        sample_id="s",
        group=0,
        index=0,
        segments=segments,
        status=status,
        text=text,
        frames=frames,
        coordinate_space=space,
    )


def score(
    config: TermConfig,
    sample: Sample,
    rollout: Rollout | str,
    values: Mapping[str, Scored | Missing] | None = None,
) -> Scored | Missing:
    rollout = rollout_of(rollout) if isinstance(rollout, str) else rollout
    context = ScoreContext(answer=parse_rollout(rollout, sample), values=values or {})
    return config.build().score(rollout, sample, context)


def value_of(config: TermConfig, sample: Sample, rollout: Rollout | str) -> float:
    scored = score(config, sample, rollout)
    assert isinstance(scored, Scored)
    return scored.value


def answer(body) -> str:
    return f"<think>t</think><answer>{body}</answer>"


def fence(items) -> str:
    return f"```json\n{json.dumps(items)}\n```"


def listed(*boxes) -> list:
    return [{"bbox_2d": list(xyxy), "label": label} for xyxy, label in boxes]


def fenced(*boxes) -> str:
    return answer(fence(listed(*boxes)))


OVD, NEGATIVE = sample_of(Task.ovd, CAT, DOG), sample_of(Task.ovd)
REC = sample_of(Task.rec, ([0, 0, 100, 100], ""))
