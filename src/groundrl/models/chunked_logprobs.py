"""Log-probs and entropies of tokens straight from hidden states, without a logit matrix of the whole batch.

With z = hidden W^T / temperature, p = softmax(z) over the ids that can be drawn, and g the gradient that a
token's log-prob receives, the gradient with respect to z is g (onehot(target) - p). Forward keeps only the
log-sum-exp of each token; backward makes p again, chunk by chunk, and leaves out tokens whose g is 0 (not
selected, or an advantage of 0), which is exact.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

CHUNK_ELEMENTS = 1 << 25
"""Logits of one chunk: 220 tokens at a vocabulary of 151,936, 128 MiB in float32."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Draw:
    """The distribution that tokens are drawn from: temperature, ids [banned] that cannot be drawn, and the
    type it is computed in."""

    temperature: float
    banned: Tensor
    dtype: torch.dtype

    def scores(self, logits: Tensor) -> Tensor:
        """Logits of the distribution, in place, -inf where banned."""
        if self.temperature != 1.0:
            logits.div_(self.temperature)
        return logits.index_fill_(1, self.banned, float("-inf"))


def token_logprobs(
    head: Any,
    hidden: Tensor,
    targets: Tensor,
    *,
    temperature: float,
    banned_ids: Sequence[int],
    chunk: int | None = None,
    dtype: torch.dtype = torch.float32,
) -> tuple[Tensor, Tensor]:
    """Log-probs [N] with gradient and entropies [N] without.

    head      the language-model head; a plain linear layer without bias takes the fast path, any other module
              (an adapter around it, say) is run again in backward
    hidden    [N, D]; targets int64 [N]
    chunk     tokens at a time; None: as many as make CHUNK_ELEMENTS logits
    dtype     what logits are turned into before the softmax, and the results' type; engines use float32
    """
    banned = torch.tensor(list(banned_ids), dtype=torch.long, device=hidden.device)
    draw = Draw(temperature=temperature, banned=banned, dtype=dtype)
    if type(head) is torch.nn.Linear and head.bias is None:
        size = chunk or max(1, CHUNK_ELEMENTS // head.weight.shape[0])
        out: Any = HeadLogprobs.apply(hidden, head.weight, targets, draw, size)
        return out
    size = chunk or max(1, CHUNK_ELEMENTS // int(head.out_features))
    pieces: list[Any] = [
        checkpoint(_plain, head, part, wanted, draw, use_reentrant=False)
        for part, wanted in zip(hidden.split(size), targets.split(size), strict=True)
    ]
    return torch.cat([piece[0] for piece in pieces]), torch.cat([piece[1] for piece in pieces])


def _plain(head: Any, hidden: Tensor, targets: Tensor, draw: Draw) -> tuple[Tensor, Tensor]:
    z = head(hidden).to(draw.dtype) / draw.temperature
    z = z.index_fill(1, draw.banned, float("-inf"))
    known = torch.log_softmax(z, 1)
    with torch.no_grad():
        entropy = -(known.exp() * known.index_fill(1, draw.banned, 0.0)).sum(1)
    return known.gather(1, targets[:, None])[:, 0], entropy


class HeadLogprobs(torch.autograd.Function):
    """(hidden [N, D], weight [V, D], targets [N], draw, chunk) to (log-probs [N], entropies [N])."""

    @staticmethod
    def forward(
        ctx: Any, hidden: Tensor, weight: Tensor, targets: Tensor, draw: Draw, chunk: int
    ) -> tuple[Tensor, Tensor]:
        count = len(hidden)
        logprobs = hidden.new_empty(count, dtype=draw.dtype)
        entropy, lse = torch.empty_like(logprobs), torch.empty_like(logprobs)
        buffers = _Buffers(min(chunk, count), weight, draw.dtype)
        for start in range(0, count, chunk):
            piece = slice(start, min(start + chunk, count))
            z = draw.scores(buffers.logits(hidden[piece], weight))
            top = z.amax(1, keepdim=True)
            known = z.gather(1, targets[piece, None])
            p = torch.sub(z, top, out=buffers.second(len(z))).exp_()
            total = p.sum(1)
            lse[piece] = total.log() + top[:, 0]
            logprobs[piece] = (known - top)[:, 0] - total.log()
            # 0 * -inf would be nan
            z.index_fill_(1, draw.banned, 0.0)
            mean = torch.bmm(p[:, None], z[:, :, None])[:, 0, 0] / total
            entropy[piece] = lse[piece] - mean
        ctx.save_for_backward(hidden, weight, targets, lse)
        ctx.draw, ctx.chunk = draw, chunk
        ctx.mark_non_differentiable(entropy)
        return logprobs, entropy

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        hidden, weight, targets, lse = ctx.saved_tensors
        draw: Draw = ctx.draw
        for_hidden, for_weight = ctx.needs_input_grad[:2]
        upstream = grads[0] / draw.temperature
        d_hidden = torch.zeros_like(hidden) if for_hidden else None
        # sums over chunks in bfloat16 would lose the small ones
        sums = torch.promote_types(weight.dtype, torch.float32)
        d_weight = torch.zeros_like(weight, dtype=sums) if for_weight else None
        counted = upstream.nonzero()[:, 0]
        buffers = _Buffers(min(ctx.chunk, len(counted)), weight, lse.dtype)
        for piece in counted.split(ctx.chunk):
            part = hidden[piece]
            z = draw.scores(buffers.logits(part, weight))
            p = z.sub_(lse[piece, None]).exp_()
            g = upstream[piece]
            d_logits = p.mul_(-g[:, None])
            d_logits[torch.arange(len(piece), device=p.device), targets[piece]] += g
            d_logits.index_fill_(1, draw.banned, 0.0)
            d_logits = d_logits.to(weight.dtype)
            if d_hidden is not None:
                d_hidden[piece] = d_logits @ weight
            if d_weight is not None:
                if d_weight.dtype == weight.dtype:
                    d_weight.addmm_(d_logits.T, part)
                else:
                    d_weight.add_(d_logits.T @ part)
        return d_hidden, None if d_weight is None else d_weight.to(weight.dtype), None, None, None


class _Buffers:
    """Two chunks of memory used over and over: fresh pages for every chunk would cost as much as the sums."""

    def __init__(self, rows: int, weight: Tensor, wide: torch.dtype) -> None:
        self._shape = (rows, weight.shape[0])
        self._options: Any = {"dtype": wide, "device": weight.device}
        self._first: Tensor | None = None
        self._second: Tensor | None = None

    def logits(self, hidden: Tensor, weight: Tensor) -> Tensor:
        """hidden W^T in the wide type."""
        if self._first is None:
            self._first = torch.empty(self._shape, **self._options)
        out = self._first[: len(hidden)]
        if out.dtype == weight.dtype:
            return torch.mm(hidden, weight.T, out=out)
        return out.copy_(hidden @ weight.T)

    def second(self, rows: int) -> Tensor:
        if self._second is None:
            self._second = torch.empty(self._shape, **self._options)
        return self._second[:rows]
