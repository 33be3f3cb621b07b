"""The training objectives: what a micro-batch of rows contributes to the loss and to the metrics.

GRPO (VLM-R1 paper, section 3):

    J = E[ 1/G sum_i 1/|o_i| sum_t min(rho_it A_i, clip(rho_it, 1 - eps, 1 + eps') A_i) - beta KL_it ]

with rho the ratio to the policy that was current when the batch was drawn, KL the k3 estimate against the
reference. The learner minimises -J; the two means are one weight per token (losses/normalise.py). Other
policy terms take the place of the clipped one (losses/term.py); a correction weighs the policy term, not the
pull towards the reference (losses/correction.py).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from groundrl.learner.logprobs import TokenScores
from groundrl.losses.correction import Correction
from groundrl.losses.kl import k3
from groundrl.losses.term import Term


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """What an objective may look at, tensors [B, C] unless said otherwise.

    selected, weights (0 where not selected), advantages [B], old_logprobs and reference_logprobs (None:
    the present policy detached; no reference), behaviour_logprobs (nan where not sampled)
    """

    selected: Tensor
    weights: Tensor
    advantages: Tensor
    behaviour_logprobs: Tensor
    old_logprobs: Tensor | None
    reference_logprobs: Tensor | None


class Objective(Protocol):
    def __call__(self, scores: TokenScores, batch: Batch) -> tuple[Tensor, dict[str, Tensor]]:
        """The weighted loss of this micro-batch, and sums over its selected tokens by metric name
        (`max/...`: a maximum)."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyObjective:
    """A policy term, corrected for the engine's gap if wanted, plus beta times k3."""

    term: Term
    beta: float = 0.0
    correction: Correction | None = None

    def __call__(self, scores: TokenScores, batch: Batch) -> tuple[Tensor, dict[str, Tensor]]:
        zero = torch.zeros_like(scores.logprobs)
        logprobs = torch.where(batch.selected, scores.logprobs, zero)
        present = logprobs.detach()
        old = present if batch.old_logprobs is None else torch.where(batch.selected, batch.old_logprobs, zero)
        behaviour = torch.where(batch.selected, batch.behaviour_logprobs, zero)
        term = self.term(logprobs, old, batch.advantages, batch.selected)
        per_token = term.loss
        sums = {
            "clip_low_frac": (term.clipped_low & batch.selected).sum(),
            "clip_high_frac": (term.clipped_high & batch.selected).sum(),
            "approx_kl": k3(old, present).sum(),
            "entropy": torch.where(batch.selected, scores.entropy, zero).sum(),
            "correction_frac": torch.zeros((), device=logprobs.device),
        }
        if self.correction is not None:
            corrected = self.correction(torch.exp(old - behaviour))
            per_token = per_token * corrected.weight
            sums["correction_frac"] = (corrected.limited & batch.selected).sum()
        if batch.reference_logprobs is not None:
            reference = torch.where(batch.selected, batch.reference_logprobs, zero)
            pull = k3(logprobs, reference)
            per_token = per_token + self.beta * pull
            sums["kl_ref"] = pull.detach().sum()
        # the engine drew from `behaviour`, so this is k3 of KL(engine || learner at the time of drawing)
        sums["mismatch_kl"] = k3(behaviour, old).sum()
        sums["max/mismatch_max"] = (behaviour - old).abs().max()
        return (per_token * batch.weights).sum(), sums


@dataclass(frozen=True, slots=True, kw_only=True)
class SFTObjective:
    """Cross-entropy of the target tokens."""

    def __call__(self, scores: TokenScores, batch: Batch) -> tuple[Tensor, dict[str, Tensor]]:
        zero = torch.zeros_like(scores.logprobs)
        logprobs = torch.where(batch.selected, scores.logprobs, zero)
        sums = {
            "entropy": torch.where(batch.selected, scores.entropy, zero).sum(),
            "nll": -logprobs.detach().sum(),
        }
        return -(logprobs * batch.weights).sum(), sums
