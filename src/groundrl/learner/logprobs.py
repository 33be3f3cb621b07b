"""Log-probs of given tokens under a model, at the sampling temperature and with the engine's vocabulary."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from groundrl.models.forward import Row, completion_logits, pack
from groundrl.models.sharding import attached


@dataclass(slots=True, kw_only=True)
class TokenScores:
    """logprobs [B, C] with gradient, entropy [B, C] without; mask [B, C] of real completion tokens."""

    logprobs: Tensor
    entropy: Tensor
    mask: Tensor


@dataclass(frozen=True, slots=True, kw_only=True)
class Scorer:
    """Scores rows the way the engine draws them.

    temperature   logits are divided by it, as in sampling
    banned_ids    placeholders that the engine cannot draw; they are no part of the distribution
    """

    temperature: float
    banned_ids: Sequence[int]
    pad_id: int

    def __call__(self, model: Any, rows: Sequence[Row]) -> TokenScores:
        device = next(model.parameters()).device
        packed = pack(rows, model, pad_id=self.pad_id, device=device)
        logits = attached(model, "completion_logits", completion_logits)(packed).float()
        banned = torch.tensor(list(self.banned_ids), dtype=torch.long, device=device)
        logits = logits.index_fill(2, banned, float("-inf")) / self.temperature
        full = torch.log_softmax(logits, dim=-1)
        logprobs = full.gather(2, packed.targets[..., None])[..., 0]
        with torch.no_grad():
            known = full.detach()
            entropy = -(known.exp() * known.masked_fill(known == float("-inf"), 0.0)).sum(-1)
        mask = packed.target_mask
        return TokenScores(
            logprobs=logprobs.masked_fill(~mask, 0.0), entropy=entropy.masked_fill(~mask, 0.0), mask=mask
        )
