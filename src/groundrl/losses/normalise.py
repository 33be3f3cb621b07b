"""Token weights: what turns a matrix of token losses into one number.

The weights are made once for a whole optimiser batch; a micro-batch takes its rows of them, so splitting a
batch changes nothing but rounding.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from groundrl.losses.config import Normalisation


def token_weights(
    counts: NDArray[np.int64], rollouts: NDArray[np.int64], mode: Normalisation, constant: int
) -> NDArray[np.float64]:
    """Weight of each token of each row, [rows].

    counts     selected tokens of each row (a row is a segment)
    rollouts   the rollout each row belongs to: segments of one rollout share its weight
    constant   tokens that `constant` divides by

    A rollout without selected tokens counts as a rollout and contributes 0; a batch without any gives all
    zeros, not 0/0.
    """
    total = int(counts.sum())
    if total == 0:
        return np.zeros(len(counts))
    if mode is Normalisation.token_mean:
        return np.full(len(counts), 1.0 / total)
    names, inverse = np.unique(rollouts, return_inverse=True)
    if mode is Normalisation.constant:
        return np.full(len(counts), 1.0 / (len(names) * constant))
    per_rollout = np.bincount(inverse, weights=counts)
    return 1.0 / (len(names) * np.maximum(per_rollout, 1)[inverse])
