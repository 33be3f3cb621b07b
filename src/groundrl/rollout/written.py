"""A rollout made from text alone: a stored answer, the truth written as an answer, a hand-written example."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from groundrl.types import CoordinateSpace, ImageFrame, Role, Rollout, RolloutStatus, Said, Segment


def written_rollout(
    sample_id: str,
    text: str,
    frames: Sequence[ImageFrame],
    *,
    space: CoordinateSpace = CoordinateSpace.PIXEL_ORIGINAL,
    status: RolloutStatus = RolloutStatus.FINISHED,
    tokens: int = 0,
    think_tokens: int | None = None,
    index: int = 0,
    said: tuple[Said, ...] = (),
) -> Rollout:
    """A rollout that parsers, rewards and metrics read like a sampled one; its `tokens` ids are all 0."""
    segment = Segment(
        prompt_ids=np.zeros(0, dtype=np.int64),
        images=(),
        response_ids=np.zeros(tokens, dtype=np.int64),
        roles=np.full(tokens, Role.STUDENT, dtype=np.int8),
        behaviour_logprobs=np.full(tokens, np.nan, dtype=np.float32),
    )
    return Rollout(
        sample_id=sample_id,
        group=0,
        index=index,
        segments=[segment],
        status=status,
        text=text,
        frames=tuple(frames),
        coordinate_space=space,
        turns=max(1, len(said)),
        said=said,
        think_tokens=think_tokens,
    )
