"""What the learner learns from: rows with the tokens that count and what they were worth."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from groundrl.models.forward import Row
from groundrl.types import Role, Rollout


@dataclass(slots=True, kw_only=True)
class Experience:
    """One training row.

    selected             bool [C], the completion tokens that the loss counts
    advantage            of the row's rollout
    behaviour_logprobs   float32 [C], nan where nothing was sampled
    rollout              number of the rollout inside the batch
    lag                  updates made since it was drawn
    """

    row: Row
    selected: NDArray[np.bool_]
    advantage: float
    behaviour_logprobs: NDArray[np.float32]
    rollout: int
    lag: int = 0


def from_rollouts(
    rollouts: Iterable[Rollout], advantages: NDArray[np.float64], valid: NDArray[np.bool_]
) -> list[Experience]:
    """One row per segment; only STUDENT tokens are selected; rollouts with a missing reward are left out.

    Sampled ids are used as they are: nothing is re-tokenised.
    """
    out: list[Experience] = []
    for number, rollout in enumerate(rollouts):
        if not valid[number]:
            continue
        out += [
            Experience(
                row=Row(prompt=segment.prompt_ids, images=segment.images, completion=segment.response_ids),
                selected=segment.roles == Role.STUDENT,
                advantage=float(advantages[number]),
                behaviour_logprobs=segment.behaviour_logprobs,
                rollout=number,
            )
            for segment in rollout.segments
        ]
    return out
