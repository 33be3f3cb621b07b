"""Log-probs of given tokens under a model, at the sampling temperature and with the engine's vocabulary."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from groundrl.learner.config import SharedPrefix
from groundrl.models.chunked_logprobs import token_logprobs
from groundrl.models.forward import Row, hidden_states, pack
from groundrl.models.sharding import attached
from groundrl.models.shared_prefix import group_rows, obstacle, pack_groups, shared_hidden_states

logger = logging.getLogger(__name__)
_told: set[str] = set()


@dataclass(slots=True, kw_only=True)
class TokenScores:
    """logprobs [B, C] with gradient, entropy [B, C] without; mask [B, C] of real completion tokens."""

    logprobs: Tensor
    entropy: Tensor
    mask: Tensor


@dataclass(frozen=True, slots=True, kw_only=True)
class Scorer:
    """Scores rows the way the engine draws them.

    temperature     logits are divided by it, as in sampling
    banned_ids      placeholders that the engine cannot draw; they are no part of the distribution
    shared_prefix   whether rows with the same prompt may share its computation
    """

    temperature: float
    banned_ids: Sequence[int]
    pad_id: int
    shared_prefix: SharedPrefix = SharedPrefix.auto

    def __call__(self, model: Any, rows: Sequence[Row]) -> TokenScores:
        logprobs, entropy, mask = attached(model, "score_rows", _score_rows)(self, rows)
        return TokenScores(logprobs=logprobs, entropy=entropy, mask=mask)

    def shares(self, model: Any) -> bool:
        if self.shared_prefix is SharedPrefix.off:
            return False
        reason = obstacle(model)
        if reason is not None and reason not in _told:
            _told.add(reason)
            logger.warning("prompts are computed once for each completion: %s", reason)
        return reason is None


def _score_rows(model: Any, scorer: Scorer, rows: Sequence[Row]) -> tuple[Tensor, Tensor, Tensor]:
    """Log-probs, entropies and mask [B, C]; with everything that reads the model's parameters inside, and
    plain tensors out, as FSDP needs it (models/sharding.py)."""
    device = next(model.parameters()).device
    groups = group_rows(rows, model) if scorer.shares(model) else []
    if groups and len(groups) < len(rows):
        packed, layout = pack_groups(rows, groups, model, pad_id=scorer.pad_id, device=device)
        hidden = shared_hidden_states(model, packed, layout)[0]
        source = packed.columns
    else:
        packed = pack(rows, model, pad_id=scorer.pad_id, device=device)
        by_row = hidden_states(model, packed)
        hidden = by_row.flatten(0, 1)
        source = packed.columns + torch.arange(len(rows), device=device)[:, None] * by_row.shape[1]
    mask = packed.target_mask
    logprobs, entropy = token_logprobs(
        model.lm_head,
        hidden[source[mask]],
        packed.targets[mask],
        temperature=scorer.temperature,
        banned_ids=scorer.banned_ids,
    )
    blank = torch.zeros(mask.shape, dtype=logprobs.dtype, device=device)
    return blank.masked_scatter(mask, logprobs), blank.masked_scatter(mask, entropy), mask
