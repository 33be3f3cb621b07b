"""Where prompts and completions lie in a row that packs whole groups: each prompt once, then all completions.

Tokens of a micro-batch are one row of T: the prompts of all groups in group order, then the completions,
those of one group side by side. A completion sees its group's prompt and its own past, nothing else.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import accumulate

import torch
from torch import Tensor

FULL = 0.7
"""Sequences share one padded attention call while each is at least this part of the longest."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """`count` sequences of `length` tokens that attend causally to themselves, in one call.

    start   first token, when they lie side by side without padding (then attention reads views)
    index   else int64 [count, length], tokens; a shorter sequence repeats its last one
    real    else bool [count, length], False on repeats
    """

    count: int
    length: int
    start: int = 0
    index: Tensor | None = None
    real: Tensor | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Cross:
    """`count` groups side by side whose completions hold `queries` tokens and whose prompts hold `keys`."""

    count: int
    query_start: int
    queries: int
    key_start: int
    keys: int


@dataclass(slots=True, kw_only=True)
class Layout:
    """The packed row of `tokens` tokens, the first `prompt_tokens` of them prompts.

    blocks, crosses   calls for kernels that take rectangles
    documents         int32 [prompts + completions + 1], cumulative lengths of everything causal
    queries, keys     int32 [groups + 1], cumulative completion tokens and prompt tokens of the groups
    longest_*         longest entry of each
    calls             attention calls that have read this layout (to notice a model that drops it)
    """

    tokens: int
    prompt_tokens: int
    blocks: tuple[Block, ...]
    crosses: tuple[Cross, ...]
    documents: Tensor
    queries: Tensor
    keys: Tensor
    longest_document: int
    longest_query: int
    longest_key: int
    calls: int = field(default=0, compare=False)


def build_layout(groups: Sequence[tuple[int, Sequence[int]]], device: torch.device) -> Layout:
    """Layout of groups given as (prompt length, completion lengths); prompts hold at least one token."""
    prompts = [prompt for prompt, _ in groups]
    answered = [sum(lengths) for _, lengths in groups]
    documents = [*prompts, *(length for _, lengths in groups for length in lengths)]
    starts = list(accumulate(documents, initial=0))
    parts = len(prompts)
    blocks = [
        *_blocks(list(zip(starts[:parts], documents[:parts], strict=True)), device),
        *_blocks(list(zip(starts[parts:-1], documents[parts:], strict=True)), device),
    ]
    return Layout(
        tokens=starts[-1],
        prompt_tokens=starts[parts],
        blocks=tuple(blocks),
        crosses=tuple(_crosses(prompts, answered, starts[parts])),
        documents=_cumulative(documents, device),
        queries=_cumulative(answered, device),
        keys=_cumulative(prompts, device),
        longest_document=max(documents),
        longest_query=max(answered),
        longest_key=max(prompts),
    )


def _cumulative(lengths: Sequence[int], device: torch.device) -> Tensor:
    return torch.tensor(list(accumulate(lengths, initial=0)), dtype=torch.int32, device=device)


def _blocks(sequences: list[tuple[int, int]], device: torch.device) -> list[Block]:
    """Calls over sequences (start, length): similar lengths together, longest first, empty ones left out."""
    buckets: list[list[tuple[int, int]]] = []
    for start, length in sorted(sequences, key=lambda sequence: (-sequence[1], sequence[0])):
        if length == 0:
            continue
        if not buckets or length < FULL * buckets[-1][0][1]:
            buckets.append([])
        buckets[-1].append((start, length))
    return [_block(bucket, device) for bucket in buckets]


def _block(bucket: list[tuple[int, int]], device: torch.device) -> Block:
    first, longest = bucket[0]
    if all(entry == (first + number * longest, longest) for number, entry in enumerate(bucket)):
        return Block(count=len(bucket), length=longest, start=first)
    starts = torch.tensor([start for start, _ in bucket])[:, None]
    lengths = torch.tensor([length for _, length in bucket])[:, None]
    steps = torch.arange(longest)[None]
    index = starts + torch.minimum(steps, lengths - 1)
    real = steps < lengths
    return Block(count=len(bucket), length=longest, index=index.to(device), real=real.to(device))


def _crosses(prompts: list[int], answered: list[int], first_query: int) -> list[Cross]:
    """One call for each run of groups with equal lengths; groups without completion tokens need none."""
    out: list[Cross] = []
    key, query = 0, first_query
    for keys, queries in zip(prompts, answered, strict=True):
        last = out[-1] if out else None
        if (
            last is not None
            and (last.keys, last.queries) == (keys, queries)
            and last.key_start + last.count * keys == key
        ):
            out[-1] = Cross(
                count=last.count + 1,
                query_start=last.query_start,
                queries=queries,
                key_start=last.key_start,
                keys=keys,
            )
        elif queries:
            out.append(Cross(count=1, query_start=query, queries=queries, key_start=key, keys=keys))
        key, query = key + keys, query + queries
    return out
