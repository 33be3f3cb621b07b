"""Drawing tokens: one uniform number per completion and step, fixed by the completion's own seed.

Because the numbers belong to the completion, what is drawn does not depend on the rest of the batch, and
a resumed run needs no generator state to draw the same again.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from groundrl.rollout.engines.base import Sampling


def uniforms(seeds: Sequence[int], steps: int) -> NDArray[np.float64]:
    """Uniform numbers in [0, 1), [len(seeds), steps], row i from seed i alone."""
    return np.stack([np.random.Generator(np.random.Philox(key=seed)).random(steps) for seed in seeds])


def draw(logits: Tensor, noise: NDArray[np.float64], sampling: Sampling) -> tuple[Tensor, Tensor]:
    """A token [B] for each row of logits [B, V], and its log-prob [B].

    The log-prob is that of the whole distribution at the sampling temperature (at 1 when greedy):
    top-k and top-p decide what can be drawn, and the learner, like the published system, scores
    untruncated.
    """
    if sampling.temperature == 0:
        token = logits.argmax(-1)
        return token, _gather(torch.log_softmax(logits, -1), token)
    logprobs = torch.log_softmax(logits / sampling.temperature, -1)
    weights = _truncate(logprobs, sampling).double()
    cumulative = weights.cumsum(-1)
    threshold = torch.from_numpy(noise).to(cumulative)[:, None] * cumulative[:, -1:]
    token = torch.searchsorted(cumulative, threshold, right=True)[:, 0]
    # rounding may land behind the last token that has weight
    last = (weights > 0).double().cumsum(-1).argmax(-1)
    token = torch.minimum(token, last)
    return token, _gather(logprobs, token)


class Choices:
    """Texts of which a completion has to be one, as token ids that end with an end token."""

    def __init__(self, sequences: Sequence[Sequence[int]]) -> None:
        self.sequences = [tuple(one) for one in sequences]

    @property
    def longest(self) -> int:
        return max(map(len, self.sequences))

    def following(self, drawn: Sequence[int]) -> list[int]:
        """The tokens that may follow those drawn so far."""
        length = len(drawn)
        begun = [one for one in self.sequences if one[:length] == tuple(drawn) and len(one) > length]
        return sorted({one[length] for one in begun})

    def mask(self, logits: Tensor, drawn: Sequence[Sequence[int]]) -> Tensor:
        """logits [B, V] with -inf for what may not follow `drawn[b]`; a row that is at an end stays."""
        out = torch.full_like(logits, float("-inf"))
        for row, ids in enumerate(drawn):
            allowed = self.following(ids)
            columns = torch.tensor(allowed, device=logits.device) if allowed else slice(None)
            out[row, columns] = logits[row, columns]
        return out


def _truncate(logprobs: Tensor, sampling: Sampling) -> Tensor:
    """Probabilities [B, V], zero outside the top-k and outside the smallest set that holds top-p."""
    weights = logprobs.exp()
    if 0 < sampling.top_k < weights.shape[-1]:
        floor = weights.topk(sampling.top_k, dim=-1).values[:, -1:]
        weights = weights.masked_fill(weights < floor, 0.0)
    if sampling.top_p < 1.0:
        ordered, order = weights.sort(dim=-1, descending=True)
        before = ordered.cumsum(-1) - ordered
        drop = before >= sampling.top_p * ordered.sum(-1, keepdim=True)
        weights = weights.scatter(-1, order, ordered.masked_fill(drop, 0.0))
    return weights


def _gather(logprobs: Tensor, token: Tensor) -> Tensor:
    return logprobs.gather(-1, token[:, None])[:, 0]
