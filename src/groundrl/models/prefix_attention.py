"""Attention over a packed row of groups, as a plug-in to transformers' unchanged modules.

A completion's attention is two exact parts, to its prompt (no mask) and to itself (causal), merged by their
log-sum-exps l1, l2 (the identity behind FlashAttention, Dao et al. 2022, section 3.1):

    l = log(exp l1 + exp l2)        out = exp(l1 - l) out1 + exp(l2 - l) out2

Backward needs no merge: with the merged out and l, each part's own flash backward yields its share of the
gradients, because both use P = exp(S - l) and rowsum(grad * out) only. Prompt keys and values are never
copied: the kernels read views of the row. Kernels: on CPU the flash kernel of torch over rectangles, on CUDA
flash attention over sequences of unequal length (two calls for all groups).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import torch
from torch import Tensor
from transformers import AttentionInterface

from groundrl.models.prefix_layout import Block, Cross, Layout

PLUGGED = ("sdpa", "flash_attention_2")
"""Attention implementations of transformers that take a layout."""

ARGUMENT = "shared_prefix"
"""The keyword by which a forward pass hands its `Layout` to the attention function."""

aten: Any = torch.ops.aten


class Kernel(Protocol):
    """Both directions over query [T, H, D], key and value [T, KV, D] with H a multiple of KV.

    forward returns out [T, H, D] and the log-sum-exps in the kernel's own shape; backward takes them back.
    """

    def forward(
        self, q: Tensor, k: Tensor, v: Tensor, layout: Layout, scale: float
    ) -> tuple[Tensor, Tensor]: ...

    def backward(
        self, grad: Tensor, saved: tuple[Tensor, ...], layout: Layout, scale: float
    ) -> tuple[Tensor, Tensor, Tensor]: ...


class RectangleKernel:
    """CPU. Log-sum-exps are [T, H]."""

    def forward(self, q: Tensor, k: Tensor, v: Tensor, layout: Layout, scale: float) -> tuple[Tensor, Tensor]:
        out = q.new_empty(q.shape)
        lse = q.new_empty(q.shape[:2], dtype=torch.promote_types(q.dtype, torch.float32))
        attend = aten._scaled_dot_product_flash_attention_for_cpu
        for block in layout.blocks:
            parts = (_take(x, block).transpose(1, 2) for x in (q, k, v))
            part, part_lse = attend(*parts, 0.0, True, scale=scale)
            _put(out, block, part.transpose(1, 2))
            _put(lse, block, part_lse.transpose(1, 2))
        for cross in layout.crosses:
            parts = (_queries(q, cross), _keys(k, cross), _keys(v, cross))
            part, part_lse = attend(*(x.transpose(1, 2) for x in parts), 0.0, False, scale=scale)
            merge(_queries(out, cross), _queries(lse, cross), part.transpose(1, 2), part_lse.transpose(1, 2))
        return out, lse

    def backward(
        self, grad: Tensor, saved: tuple[Tensor, ...], layout: Layout, scale: float
    ) -> tuple[Tensor, Tensor, Tensor]:
        q, k, v, out, lse = saved
        dq, dk, dv = q.new_empty(q.shape), k.new_empty(k.shape), v.new_empty(v.shape)
        attend = aten._scaled_dot_product_flash_attention_for_cpu_backward
        for block in layout.blocks:
            upstream = _take(grad, block)
            if block.real is not None:
                upstream = upstream * block.real[..., None, None]
            parts = (upstream, *(_take(x, block) for x in (q, k, v, out, lse)))
            grads = attend(*(x.transpose(1, 2) for x in parts), 0.0, True, scale=scale)
            for total, part in zip((dq, dk, dv), grads, strict=True):
                _put(total, block, part.transpose(1, 2))
        for cross in layout.crosses:
            parts = (
                _queries(grad, cross), _queries(q, cross), _keys(k, cross), _keys(v, cross),
                _queries(out, cross), _queries(lse, cross),
            )  # fmt: skip
            grads = attend(*(x.transpose(1, 2) for x in parts), 0.0, False, scale=scale)
            _queries(dq, cross).add_(grads[0].transpose(1, 2))
            _keys(dk, cross).add_(grads[1].transpose(1, 2))
            _keys(dv, cross).add_(grads[2].transpose(1, 2))
        return dq, dk, dv


class VarlenKernel:
    """CUDA, bfloat16 and float16. Log-sum-exps are [H, T]."""

    def forward(self, q: Tensor, k: Tensor, v: Tensor, layout: Layout, scale: float) -> tuple[Tensor, Tensor]:
        spans, longest = layout.documents, layout.longest_document
        flash = aten._flash_attention_forward
        out, lse = flash(
            q, k, v, spans, spans, longest, longest, 0.0, True, return_debug_mask=False, scale=scale
        )[:2]
        p = layout.prompt_tokens
        if p < layout.tokens:
            part, part_lse = flash(
                q[p:], k[:p], v[:p], layout.queries, layout.keys, layout.longest_query, layout.longest_key,
                0.0, False, return_debug_mask=False, scale=scale,
            )[:2]  # fmt: skip
            merge(out[p:], lse[:, p:].T, part, part_lse.T)
        return out, lse

    def backward(
        self, grad: Tensor, saved: tuple[Tensor, ...], layout: Layout, scale: float
    ) -> tuple[Tensor, Tensor, Tensor]:
        q, k, v, out, lse = saved
        # without dropout the random state is not read
        random = (torch.zeros(2, dtype=torch.uint64, device=q.device), torch.empty(0, device=q.device))
        spans, longest = layout.documents, layout.longest_document
        flash = aten._flash_attention_backward
        dq, dk, dv = flash(
            grad, q, k, v, out, lse, spans, spans, longest, longest, 0.0, True, *random, scale=scale
        )
        p = layout.prompt_tokens
        if p < layout.tokens:
            grads = flash(
                grad[p:], q[p:], k[:p], v[:p], out[p:], lse[:, p:].contiguous(), layout.queries, layout.keys,
                layout.longest_query, layout.longest_key, 0.0, False, *random, scale=scale,
            )  # fmt: skip
            for total, part in zip((dq[p:], dk[:p], dv[:p]), grads, strict=True):
                total.add_(part)
        return dq, dk, dv


def merge(out: Tensor, lse: Tensor, part: Tensor, part_lse: Tensor) -> None:
    """Merge a further part into out [..., H, D] and lse [..., H], in place."""
    total = torch.logaddexp(lse, part_lse)
    share = (part_lse - total).exp_()[..., None]
    out.copy_(torch.lerp(out.to(total.dtype), part.to(total.dtype), share))
    lse.copy_(total)


def _take(x: Tensor, block: Block) -> Tensor:
    """[T, ...] to [count, length, ...]; a view where the sequences lie side by side."""
    if block.index is not None:
        return x[block.index]
    return x[block.start : block.start + block.count * block.length].unflatten(0, (block.count, block.length))


def _put(x: Tensor, block: Block, values: Tensor) -> None:
    if block.index is None or block.real is None:
        _take(x, block).copy_(values)
    else:
        x[block.index[block.real]] = values[block.real]


def _queries(x: Tensor, cross: Cross) -> Tensor:
    rows = x[cross.query_start : cross.query_start + cross.count * cross.queries]
    return rows.unflatten(0, (cross.count, cross.queries))


def _keys(x: Tensor, cross: Cross) -> Tensor:
    rows = x[cross.key_start : cross.key_start + cross.count * cross.keys]
    return rows.unflatten(0, (cross.count, cross.keys))


class PrefixAttention(torch.autograd.Function):
    """Attention of a packed row: q [T, H, D], k and v [T, KV, D] to [T, H, D]."""

    @staticmethod
    def forward(ctx: Any, q: Tensor, k: Tensor, v: Tensor, layout: Layout, scale: float) -> Tensor:
        kernel = kernel_for(q)
        out, lse = kernel.forward(q, k, v, layout, scale)
        ctx.save_for_backward(q, k, v, out, lse)
        ctx.kernel, ctx.layout, ctx.scale = kernel, layout, scale
        return out

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        dq, dk, dv = ctx.kernel.backward(grads[0].contiguous(), ctx.saved_tensors, ctx.layout, ctx.scale)
        return dq, dk, dv, None, None


def kernel_for(query: Tensor) -> Kernel:
    return VarlenKernel() if query.is_cuda else RectangleKernel()


def attend_shared(layout: Layout, query: Tensor, key: Tensor, value: Tensor, scale: float | None) -> Tensor:
    """query [1, H, T, D], key and value [1, KV, T, D] to [1, T, H, D]."""
    layout.calls += 1
    q, k, v = (x[0].transpose(0, 1) for x in (query, key, value))
    scale = query.shape[-1] ** -0.5 if scale is None else scale
    out: Any = PrefixAttention.apply(q, k, v, layout, scale)
    return out[None]


UNSUPPORTED = ("sliding_window", "softcap", "s_aux", "position_bias")
"""Options of an attention call that change it in a way the merged calls do not know."""


def _pluggable(plain: Callable[..., Any]) -> Callable[..., Any]:
    """`plain`, except for calls that bring a layout."""

    def attention(
        module: Any, query: Tensor, key: Tensor, value: Tensor, attention_mask: Any, **options: Any
    ) -> tuple[Tensor, Tensor | None]:
        layout = options.pop(ARGUMENT, None)
        if layout is None:
            return plain(module, query, key, value, attention_mask, **options)
        used = [name for name in UNSUPPORTED if options.get(name) is not None]
        if used or options.get("dropout"):
            raise ValueError(f"shared prefix: attention with {', '.join(used) or 'dropout'} is not supported")
        return attend_shared(layout, query, key, value, options.get("scaling")), None

    return attention


def plug_in() -> None:
    """Let transformers' attention functions take a layout; calls without one are passed on unchanged."""
    interface = AttentionInterface()
    for name in PLUGGED:
        if not getattr(interface[name], "takes_layout", False):
            wrapped: Any = _pluggable(interface[name])
            wrapped.takes_layout = True
            AttentionInterface.register(name, wrapped)
