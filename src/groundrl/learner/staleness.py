"""What the ratio of a row is taken to, when updates were made between drawing it and learning from it.

Let mu be the policy that drew the row (its log-probs come with it), pi_0 the learner's as this batch begins
and pi the present one. In a synchronous run pi_0 is the policy that drew, up to the engine's rounding. For a
row with lag > 0 it is not, and there are two ways:

engine_ratio (no correction chosen): PPO as it was defined, with mu in the denominator (Schulman et al. 2017,
eq. 7), so that the clip bounds how far the policy has moved since the row was drawn, lag included:

    min( pi/mu A, clip(pi/mu, 1 - eps, 1 + eps') A )

The engine's own rounding is then part of the ratio, and `mismatch_kl` is 0 for such rows; `approx_kl`
measures lag and rounding together.

otherwise (correction=tis or mask): the decoupled objective (Hilton et al. 2022, "Batch size-invariance for
policy optimization"; AReaL, Fu et al. 2025), with the correction f bounding its weight:

    f(pi_0/mu) min( pi/pi_0 A, clip(pi/pi_0, 1 - eps, 1 + eps') A )

This is what the correction means in a synchronous run too, so nothing changes but what the gap is made of.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from groundrl.learner.experience import Experience
from groundrl.world import World


def old_logprobs(
    rows: list[Experience],
    world: World,
    *,
    off_policy: bool,
    engine_ratio: bool,
    score: Callable[[], list[Tensor]],
) -> list[Tensor] | None:
    """Log-probs in the ratio's denominator, [C] a row; None: the present ones, detached.

    off_policy: several updates are made of the batch. score: log-probs under pi_0, called by all processes
    or by none.
    """
    lags = {lag for part in world.gather([row.lag for row in rows]) for lag in part}
    if not engine_ratio or max(lags) == 0:
        return score() if off_policy else None
    drawn = [torch.from_numpy(row.behaviour_logprobs).nan_to_num() for row in rows]
    if min(lags) > 0:
        return drawn
    return [old if row.lag else own for row, old, own in zip(rows, drawn, score(), strict=True)]
