"""Attention over packed groups against one dense mask; both kernels, forward and backward, in float64."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch
from torch import Tensor
from transformers import AttentionInterface

from groundrl.models import prefix_attention
from groundrl.models.prefix_attention import PrefixAttention, VarlenKernel, plug_in
from groundrl.models.prefix_layout import Block, Cross, build_layout

CPU = torch.device("cpu")
LAYOUTS = (
    [(3, [2, 1, 4, 0]), (3, [2]), (5, []), (1, [1, 1])],
    [(4, [2, 2]), (4, [2, 2]), (4, [2, 2])],
    [(2, [0, 0]), (2, [])],
    [(6, [5])],
    [(4, [2]), (4, []), (4, [2])],
    [(1, [10, 9, 3, 1]), (7, [8, 2])],
)


def visible(groups) -> Tensor:
    """bool [T, T]: what each token may see, token by token from the definition."""
    where = [(g, -1, p) for g, (prompt, _) in enumerate(groups) for p in range(prompt)]
    where += [
        (g, n, t) for g, (_, lengths) in enumerate(groups) for n, c in enumerate(lengths) for t in range(c)
    ]
    return torch.tensor(
        [
            [
                g == g2 and ((n == n2 and t2 <= t) or (n >= 0 and n2 == -1))
                for g2, n2, t2 in where
            ]
            for g, n, t in where
        ]
    )  # fmt: skip


def dense(q: Tensor, k: Tensor, v: Tensor, mask: Tensor, scale: float) -> tuple[Tensor, Tensor]:
    """(out [Q, H, D], log-sum-exp [H, Q]) under a mask [Q, K]."""
    k, v = (x.repeat_interleave(q.shape[1] // x.shape[1], dim=1) for x in (k, v))
    scores = torch.einsum("qhd,khd->hqk", q, k) * scale
    scores = scores.masked_fill(~mask, float("-inf"))
    return torch.einsum("hqk,khd->qhd", scores.softmax(-1), v), scores.logsumexp(-1)


def inputs(tokens: int, seed: int = 0) -> tuple[Tensor, Tensor, Tensor]:
    """Queries of four heads, keys and values of two."""
    g = torch.Generator().manual_seed(seed)
    q, k, v = (torch.randn(tokens, heads, 8, generator=g, dtype=torch.float64) for heads in (4, 2, 2))
    return q.requires_grad_(), k.requires_grad_(), v.requires_grad_()


def run(q: Tensor, k: Tensor, v: Tensor, groups) -> Tensor:
    out = PrefixAttention.apply(q, k, v, build_layout(groups, CPU), 0.4)
    assert isinstance(out, Tensor)
    return out


class DenseFlash:
    """The two CUDA operators over sequences of unequal length, written with dense masks."""

    def _mask(self, spans_q: Tensor, spans_k: Tensor, longest: tuple[int, int], causal: bool) -> Tensor:
        lengths_q, lengths_k = spans_q.diff(), spans_k.diff()
        assert longest == (int(lengths_q.max()), int(lengths_k.max()))
        blocks = [
            torch.ones(a, b, dtype=torch.bool).tril() if causal else torch.ones(a, b, dtype=torch.bool)
            for a, b in zip(lengths_q.tolist(), lengths_k.tolist(), strict=True)
        ]
        mask = torch.zeros(int(spans_q[-1]), int(spans_k[-1]), dtype=torch.bool)
        for block, row, column in zip(blocks, spans_q.tolist(), spans_k.tolist(), strict=False):
            mask[row : row + block.shape[0], column : column + block.shape[1]] = block
        return mask

    def _flash_attention_forward(
        self, q, k, v, cu_q, cu_k, max_q, max_k, dropout, causal, *, return_debug_mask, scale
    ) -> tuple:
        assert dropout == 0.0
        assert not return_debug_mask
        return *dense(q, k, v, self._mask(cu_q, cu_k, (max_q, max_k), causal), scale), None, None, None

    def _flash_attention_backward(
        self, grad, q, k, v, out, lse, cu_q, cu_k, max_q, max_k, dropout, causal, rng, unused, *, scale
    ) -> tuple:
        """FlashAttention's backward (Dao et al. 2022, algorithm 4) with the given out and log-sum-exp."""
        assert lse.is_contiguous()
        mask, times = self._mask(cu_q, cu_k, (max_q, max_k), causal), q.shape[1] // k.shape[1]
        keys, values = (x.repeat_interleave(times, dim=1) for x in (k, v))
        scores = torch.einsum("qhd,khd->hqk", q, keys) * scale
        p = torch.where(mask, torch.exp(scores - lse[..., None]), 0.0)
        rows = (grad * out).sum(-1).T[..., None]
        ds = p * (torch.einsum("qhd,khd->hqk", grad, values) - rows) * scale
        dk, dv = torch.einsum("hqk,qhd->khd", ds, q), torch.einsum("hqk,qhd->khd", p, grad)
        fold = (len(k), k.shape[1], times, k.shape[2])
        return torch.einsum("hqk,khd->qhd", ds, keys), dk.view(fold).sum(2), dv.view(fold).sum(2)


@pytest.fixture(params=["rectangles", "sequences"])
def kernel(request, monkeypatch) -> str:
    """The CPU kernel as it is; the CUDA kernel's bookkeeping over dense operators."""
    if request.param == "sequences":
        monkeypatch.setattr(prefix_attention, "kernel_for", lambda query: VarlenKernel())
        monkeypatch.setattr(prefix_attention, "aten", DenseFlash())
    return request.param


@pytest.mark.parametrize("groups", LAYOUTS)
def test_equal_to_one_dense_mask(kernel, groups) -> None:
    mask = visible(groups)
    q, k, v = inputs(len(mask))
    upstream = torch.randn(len(mask), 4, 8, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    wanted = dense(q, k, v, mask, 0.4)[0]
    expected = torch.autograd.grad(wanted, (q, k, v), upstream)
    out = run(q, k, v, groups)
    torch.testing.assert_close(out, wanted, rtol=0, atol=1e-12)
    for ours, theirs in zip(torch.autograd.grad(out, (q, k, v), upstream), expected, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-12)


@pytest.mark.parametrize("groups", LAYOUTS[:2])
def test_gradcheck(groups) -> None:
    assert torch.autograd.gradcheck(lambda q, k, v: run(q, k, v, groups), inputs(len(visible(groups))))


def test_strided_inputs_and_large_scores() -> None:
    """Queries as a model makes them (heads behind tokens in memory), scores of hundreds."""
    groups = LAYOUTS[0]
    mask = visible(groups)
    q, k, v = ((x.detach() * 30).transpose(0, 1).contiguous().transpose(0, 1) for x in inputs(len(mask)))
    torch.testing.assert_close(run(q, k, v, groups), dense(q, k, v, mask, 0.4)[0], rtol=0, atol=1e-10)


def test_nothing_leaks() -> None:
    """nan in one completion stays there; nan in a prompt reaches its own group and no other."""
    groups = [(2, [2, 2]), (2, [2, 1])]  # tokens: prompts 0-1, 2-3; completions 4-5, 6-7, 8-9, 10
    for poisoned, reached in ({6, 7}, {6, 7}), ({0, 1}, {0, 1, 4, 5, 6, 7}):
        q, k, v = (x.detach().clone() for x in inputs(11))
        for x in (q, k, v):
            x[list(poisoned)] = float("nan")
        bad = run(q, k, v, groups).isnan().any(-1).any(-1)
        assert set(bad.nonzero()[:, 0].tolist()) == reached


def test_the_calls_of_a_layout() -> None:
    """Equal neighbours share a call without copies; unequal ones are padded with their own last token."""
    even = build_layout([(4, [2, 2]), (4, [2, 2])], CPU)
    assert even.blocks == (Block(count=2, length=4), Block(count=4, length=2, start=8))
    assert even.crosses == (Cross(count=2, query_start=8, queries=4, key_start=0, keys=4),)
    # prompts 0-2 and 3; completions 4-6, 7-9, 10-11 and 12; 2 is less than 0.7 x 3, so it begins a new call
    uneven = build_layout([(3, [3, 3, 2]), (1, [1, 0])], CPU)
    assert (uneven.tokens, uneven.prompt_tokens) == (13, 4)
    assert [(b.count, b.length, b.start) for b in uneven.blocks] == [
        (1, 3, 0), (1, 1, 3), (2, 3, 4), (1, 2, 10), (1, 1, 12)
    ]  # fmt: skip
    assert [(c.count, c.query_start, c.queries, c.key_start, c.keys) for c in uneven.crosses] == [
        (1, 4, 8, 0, 3), (1, 12, 1, 3, 1)
    ]  # fmt: skip
    assert uneven.documents.tolist() == [0, 3, 4, 7, 10, 12, 13, 13]
    assert (uneven.queries.tolist(), uneven.keys.tolist()) == ([0, 8, 9], [0, 3, 4])
    padded = build_layout([(1, [4, 3])], CPU).blocks[1]
    assert padded.index is not None
    assert padded.real is not None
    assert padded.index.tolist() == [[1, 2, 3, 4], [5, 6, 7, 7]]
    assert padded.real.tolist() == [[True] * 4, [True] * 3 + [False]]


def test_the_plug_in() -> None:
    """Calls without a layout are the library's own; what a layout cannot do is refused; twice is once."""
    plug_in()
    attention = AttentionInterface()["sdpa"]
    plug_in()
    assert AttentionInterface()["sdpa"] is attention
    q, k, v = (x.detach().transpose(0, 1)[None] for x in inputs(5))
    module = SimpleNamespace(is_causal=True, num_key_value_groups=2)
    causal = torch.ones(5, 5, dtype=torch.bool).tril()
    parts = [x[0].transpose(0, 1) for x in (q, k, v)]
    own = attention(module, q, k, v, None, scaling=0.4)[0][0]
    torch.testing.assert_close(own, dense(*parts, causal, 0.4)[0], rtol=0, atol=1e-12)
    layout = build_layout([(3, [1, 1])], CPU)
    shared = attention(module, q, k, v, None, scaling=0.4, dropout=0.0, shared_prefix=layout)[0][0]
    torch.testing.assert_close(
        shared, dense(*parts, visible([(3, [1, 1])]), 0.4)[0], rtol=0, atol=1e-12
    )  # fmt: skip
    assert layout.calls == 1
    for option, name in (({"dropout": 0.1}, "dropout"), ({"sliding_window": 8}, "sliding_window")):
        with pytest.raises(ValueError, match=name):
            attention(module, q, k, v, None, scaling=0.4, shared_prefix=layout, **option)
