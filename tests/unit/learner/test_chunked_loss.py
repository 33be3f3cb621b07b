"""Chunked log-probs against the whole logit matrix: values, gradients, memory."""

from __future__ import annotations

import weakref
from typing import Any

import pytest
import torch
from peft import LoraConfig, inject_adapter_in_model
from tests.tiny import scorer, varied_contexts
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten

from groundrl.models.chunked_logprobs import token_logprobs
from groundrl.models.forward import Row

V, D, N = 37, 8, 23
BANNED = (0, 5, 36)
CHUNKS = (1, 4, 23, 100, None)


def naive(
    head: Any,
    hidden: Tensor,
    targets: Tensor,
    temperature: float,
    banned: tuple[int, ...],
    dtype: torch.dtype,
) -> tuple[Tensor, Tensor]:
    """The whole matrix, with autograd; entropies summed over the ids that can be drawn."""
    logits = head(hidden).to(dtype).index_fill(1, torch.tensor(banned, dtype=torch.long), float("-inf"))
    full = torch.log_softmax(logits / temperature, -1)
    free = [v for v in range(full.shape[1]) if v not in banned]
    entropy = -(full[:, free].exp() * full[:, free]).sum(1)
    return full.gather(1, targets[:, None])[:, 0], entropy.detach()


def problem(
    dtype: torch.dtype = torch.float64, seed: int = 0, scale: float = 3.0
) -> tuple[nn.Linear, Tensor, Tensor, Tensor]:
    """(head, hidden, targets that can be drawn, gradient of every token, some 0)."""
    g = torch.Generator().manual_seed(seed)
    head = nn.Linear(D, V, bias=False, dtype=dtype)
    with torch.no_grad():
        head.weight.copy_(torch.randn(V, D, generator=g))
    hidden = (scale * torch.randn(N, D, generator=g)).to(dtype).requires_grad_()
    targets = torch.randint(6, 36, (N,), generator=g)
    upstream = torch.randn(N, generator=g) * (torch.rand(N, generator=g) < 0.7)
    return head, hidden, targets, upstream


def both(
    head: Any, hidden: Tensor, targets: Tensor, upstream: Tensor, **options: Any
) -> list[tuple[Tensor, ...]]:
    """(log-probs, entropies, gradients) of the chunked and of the naive way."""
    parameters = [hidden, *(p for p in head.parameters() if p.requires_grad)]
    temperature, banned = options["temperature"], options["banned_ids"]
    out: list[tuple[Tensor, ...]] = []
    for way in ("chunked", "naive"):
        if way == "chunked":
            logprobs, entropy = token_logprobs(head, hidden, targets, **options)
            assert not entropy.requires_grad
        else:
            logprobs, entropy = naive(head, hidden, targets, temperature, banned, options["dtype"])
        loss = (logprobs * upstream.to(logprobs.dtype)).sum()
        out.append((logprobs.detach(), entropy, *torch.autograd.grad(loss, parameters)))
    return out


@pytest.mark.parametrize("chunk", CHUNKS)
@pytest.mark.parametrize(("temperature", "banned"), [(1.0, ()), (0.7, BANNED), (2.5, (5,))])
def test_equal_to_the_whole_matrix(chunk, temperature, banned) -> None:
    ours, theirs = both(
        *problem(), temperature=temperature, banned_ids=banned, chunk=chunk, dtype=torch.float64
    )
    for one, two in zip(ours, theirs, strict=True):
        torch.testing.assert_close(one, two, rtol=0, atol=1e-12)


def test_by_hand() -> None:
    """Logits (1, 2, banned, 3) / 0.5 = (2, 4, -, 6): p is softmax; d log p(1) / d logits = (1 - p) / 0.5."""
    head = nn.Linear(1, 4, bias=False, dtype=torch.float64)
    with torch.no_grad():
        head.weight.copy_(torch.tensor([[1.0], [2.0], [9.0], [3.0]]))
    hidden = torch.ones(1, 1, dtype=torch.float64, requires_grad=True)
    logprobs, entropy = token_logprobs(
        head, hidden, torch.tensor([1]), temperature=0.5, banned_ids=(2,), dtype=torch.float64
    )
    p = torch.tensor([2.0, 4.0, 6.0], dtype=torch.float64).softmax(0)
    assert logprobs.item() == pytest.approx(float(p[1].log()))
    assert entropy.item() == pytest.approx(float(-(p * p.log()).sum()))
    (3 * logprobs).sum().backward()
    slope = torch.stack([-p[0], 1 - p[1], torch.zeros(()), -p[2]]) * 3 / 0.5
    assert head.weight.grad is not None
    torch.testing.assert_close(head.weight.grad[:, 0], slope)
    assert hidden.grad is not None
    assert hidden.grad.item() == pytest.approx(float((slope * head.weight.detach()[:, 0]).sum()))


def test_gradcheck() -> None:
    head, hidden, targets, _ = problem(scale=0.5)

    def logprobs(hidden: Tensor, weight: Tensor) -> Tensor:
        made = nn.Linear(D, V, bias=False, dtype=torch.float64)
        del made.weight
        made.weight = weight  # type: ignore[assignment]
        return token_logprobs(
            made, hidden, targets, temperature=0.8, banned_ids=BANNED, chunk=7, dtype=torch.float64
        )[0]

    assert torch.autograd.gradcheck(logprobs, (hidden, head.weight.detach().requires_grad_()))


def test_a_banned_target_is_impossible_and_its_gradient_finite() -> None:
    head, hidden, targets, upstream = problem()
    targets[3], upstream[3] = BANNED[1], 2.0
    ours, theirs = both(
        head, hidden, targets, upstream, temperature=0.7, banned_ids=BANNED, chunk=4, dtype=torch.float64
    )
    assert ours[0][3] == float("-inf")
    for one, two in zip(ours, theirs, strict=True):
        torch.testing.assert_close(one, two, rtol=0, atol=1e-12)


def test_large_logits_in_float32() -> None:
    head, hidden, targets, upstream = problem(torch.float32, scale=300.0)
    ours, theirs = both(
        head, hidden, targets, upstream, temperature=0.7, banned_ids=BANNED, chunk=4, dtype=torch.float32
    )
    assert float(ours[0].min()) < -1000
    for one, two in zip(ours, theirs, strict=True):
        torch.testing.assert_close(one, two, rtol=1e-5, atol=1e-4)


def test_bfloat16_weights() -> None:
    """Values in float32 from bfloat16 logits as the naive way; gradients to bfloat16's 8 bits."""
    head, hidden, targets, upstream = problem(torch.bfloat16, scale=0.5)
    ours, theirs = both(
        head, hidden, targets, upstream, temperature=0.7, banned_ids=BANNED, chunk=2, dtype=torch.float32
    )
    assert ours[0].dtype == ours[1].dtype == torch.float32
    assert ours[2].dtype == ours[3].dtype == torch.bfloat16
    torch.testing.assert_close(ours[0], theirs[0], rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(ours[1], theirs[1], rtol=1e-5, atol=1e-5)
    for one, two in zip(ours[2:], theirs[2:], strict=True):
        assert float((one - two).abs().max()) <= 2**-6 * float(two.abs().max())


def test_small_gradients_add_up_in_bfloat16() -> None:
    """600 equal tokens, one a chunk: a sum kept in bfloat16 would stand still at 256 times the first."""
    head, hidden, targets, _ = problem(torch.bfloat16)
    many = hidden.detach()[:1].expand(600, D)
    token_logprobs(
        head, many, targets[:1].expand(600), temperature=1.0, banned_ids=(), chunk=1
    )[0].sum().backward()  # fmt: skip
    assert head.weight.grad is not None
    ours = head.weight.grad.clone()
    head.weight.grad = None
    token_logprobs(head, many[:1], targets[:1], temperature=1.0, banned_ids=())[0].sum().backward()
    torch.testing.assert_close(ours.float(), 600 * head.weight.grad.float(), rtol=2**-7, atol=0)


@pytest.mark.parametrize("kind", ["lora", "bias", "frozen"])
def test_heads_of_every_kind(kind) -> None:
    head, hidden, targets, upstream = problem()
    made: Any = nn.ModuleDict({"head": head})
    if kind == "lora":
        made = inject_adapter_in_model(LoraConfig(r=2, target_modules=["head"]), made)
        for name, parameter in made.named_parameters():
            parameter.requires_grad_("lora_" in name)
            if "lora_" in name:
                parameter.data = torch.randn(parameter.shape, dtype=torch.float64) / 3
    elif kind == "bias":
        made["head"] = nn.Linear(D, V, dtype=torch.float64)
    else:
        head.requires_grad_(False)
    ours, theirs = both(
        made["head"], hidden, targets, upstream,
        temperature=0.7, banned_ids=BANNED, chunk=4, dtype=torch.float64,
    )  # fmt: skip
    assert len(ours) == {"lora": 5, "bias": 5, "frozen": 3}[kind]
    for one, two in zip(ours, theirs, strict=True):
        torch.testing.assert_close(one, two, rtol=0, atol=1e-12)


def test_no_tokens() -> None:
    head, hidden, targets, _ = problem()
    logprobs, entropy = token_logprobs(head, hidden[:0], targets[:0], temperature=1.0, banned_ids=())
    assert (logprobs.shape, entropy.shape) == ((0,), (0,))
    logprobs.sum().backward()
    assert head.weight.grad is not None
    assert not head.weight.grad.any()


def test_the_tied_head_of_the_tiny_model(fresh_policy) -> None:
    """The embedding's gradient holds both shares: what goes in and what comes out."""
    model, processor = fresh_policy.model, fresh_policy.processor
    assert model.lm_head.weight is model.get_input_embeddings().weight
    contexts = varied_contexts(processor)
    rows = [Row(prompt=c.ids, images=c.images, completion=c.ids[:4]) for c in contexts if not c.images]
    model.zero_grad()
    scorer(processor, 0.7)(model, rows).logprobs.sum().backward()
    ours = model.lm_head.weight.grad.clone()
    model.zero_grad()
    ids = torch.from_numpy(rows[0].prompt)[None]
    whole = torch.cat([ids, ids[:, :4]], 1)
    logits = model(input_ids=whole, mm_token_type_ids=torch.zeros_like(whole)).logits[0, -5:-1]
    logits = logits.index_fill(1, torch.tensor(sorted(processor.banned_ids)), float("-inf")) / 0.7
    torch.log_softmax(logits, -1).gather(1, ids[0, :4, None]).sum().backward()
    theirs = model.lm_head.weight.grad
    assert float((ours - theirs).abs().max()) <= 1e-5 * float(theirs.abs().max())


class Largest(TorchDispatchMode):
    """The largest sum of living tensors of at least `width` columns, in elements."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.width, self.peak = width, 0
        self.known: dict[int, int] = {}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        for value in tree_flatten(out)[0]:
            if isinstance(value, Tensor) and value.ndim == 2 and value.shape[1] == self.width:
                storage = value.untyped_storage()
                if storage._cdata not in self.known:
                    self.known[storage._cdata] = storage.nbytes() // value.element_size()
                    weakref.finalize(storage, self.known.pop, storage._cdata, None)
        self.peak = max(self.peak, sum(self.known.values()))
        return out


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_at_most_three_chunks_of_logits_are_alive(dtype) -> None:
    """Of 500 tokens, in chunks of 10: logits and their exponentials; in bfloat16 their rounded form too."""
    head = nn.Linear(4, 1000, bias=False, dtype=dtype)
    hidden = torch.randn(500, 4, dtype=dtype, requires_grad=True)
    with Largest(1000) as seen:
        logprobs, _ = token_logprobs(
            head, hidden, torch.randint(0, 1000, (500,)), temperature=0.9, banned_ids=(1,), chunk=10
        )
        logprobs.sum().backward()
    weight = 4 * 1000  # seen transposed
    assert 10 * 1000 <= seen.peak <= 3 * 10 * 1000 + weight
