"""Sampling with the training model: prompt and vision tower once a request, then one cache row a completion.

Prompts are padded on the left whatever the processor's padding side; M-RoPE positions come from each
unpadded prompt. Rows that have ended leave the batch.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from transformers import DynamicCache

from groundrl.models.forward import Row, completion_logits, decoder_inputs, pack, place
from groundrl.models.processor import Processor
from groundrl.models.sharding import full_state, is_sharded
from groundrl.rollout.engines.base import Completion, Given, Request, Sampling
from groundrl.rollout.engines.draw import Choices, draw, uniforms

COMPACT_BELOW = 0.75
"""Finished rows are dropped from the cache once the live share falls below this."""


class HFEngine:
    """An `Engine` on a transformers model that somebody else trains.

    A process of several cannot sample with the sharded model: each would have to make the same number of
    steps. There the engine is given a copy before the model is sharded.
    """

    def __init__(self, model: Any, processor: Processor, *, max_batch: int) -> None:
        self.model = model
        self.processor = processor
        self.max_batch = max_batch

    def sync_weights(self, model: Any) -> None:
        """Sample with `model` itself; where it is sharded, with this engine's own copy of its values."""
        if not is_sharded(model):
            self.model = model
            return
        own = self.model.state_dict()
        for name, value in full_state(model):
            own[name].copy_(value)

    def score(self, given: Sequence[Given]) -> list[NDArray[np.float32]]:
        was_training = self.model.training
        self.model.eval()
        out: list[NDArray[np.float32]] = []
        rows = [Row(prompt=g.prompt_ids, images=g.images, completion=g.completion_ids) for g in given]
        try:
            with torch.no_grad():
                for start in range(0, len(rows), self.max_batch):
                    chunk = rows[start : start + self.max_batch]
                    out += self._score(chunk)
        finally:
            self.model.train(was_training)
        return out

    def _score(self, rows: list[Row]) -> list[NDArray[np.float32]]:
        device = next(self.model.parameters()).device
        packed = pack(rows, self.model, pad_id=self.processor.pad_id, device=device)
        logprobs = torch.log_softmax(completion_logits(self.model, packed).float(), dim=-1)
        known = logprobs.gather(2, packed.targets[..., None])[..., 0].cpu().numpy()
        return [known[b, : len(row.completion)].copy() for b, row in enumerate(rows)]

    def reset_caches(self) -> None:
        return None

    def release(self) -> None:
        return None

    def close(self) -> None:
        return None

    def generate(self, requests: Sequence[Request], sampling: Sampling) -> list[list[Completion]]:
        was_training = self.model.training
        self.model.eval()
        out: list[list[Completion]] = [[] for _ in requests]
        try:
            with torch.no_grad():
                for chunk in _chunks(requests, self.max_batch):
                    done = self._run(requests, chunk, sampling)
                    for (owner, _), completion in zip(chunk, done, strict=True):
                        out[owner].append(completion)
        finally:
            self.model.train(was_training)
        return out

    def _run(
        self, requests: Sequence[Request], chunk: list[tuple[int, int]], sampling: Sampling
    ) -> list[Completion]:
        """Completions of `chunk`, a list of (request index, seed)."""
        device = next(self.model.parameters()).device
        owners = sorted({owner for owner, _ in chunk})
        prompts = [requests[owner] for owner in owners]
        logits, cache, mask, next_position = self._prefill(prompts, device)
        row_of = {owner: row for row, owner in enumerate(owners)}
        expand = torch.tensor([row_of[owner] for owner, _ in chunk], device=device)
        if len(chunk) != len(owners):
            _select(cache, expand)
            logits, next_position = logits[expand], next_position[expand]
            mask = None if mask is None else mask[expand]
        choices = self._choices(sampling)
        steps = choices.longest if choices else sampling.max_new_tokens
        noise = uniforms([seed for _, seed in chunk], steps)
        ids = np.zeros((len(chunk), steps), dtype=np.int64)
        logprobs = np.zeros((len(chunk), steps), dtype=np.float32)
        lengths = np.zeros(len(chunk), dtype=np.int64)
        ended = np.zeros(len(chunk), dtype=bool)
        live = np.arange(len(chunk))  # chunk index of each cache row
        banned = torch.tensor(self.processor.banned_ids, dtype=torch.long, device=device)
        stops = np.array(sorted(self.processor.eos_ids))
        for t in range(steps):
            logits = logits.float().index_fill(1, banned, float("-inf"))
            if choices:
                logits = choices.mask(logits, ids[live, :t].tolist())
            token, logprob = draw(logits, noise[live, t], sampling)
            drawn = token.cpu().numpy()
            writable = ~ended[live]
            ids[live[writable], t] = drawn[writable]
            logprobs[live[writable], t] = logprob.float().cpu().numpy()[writable]
            lengths[live[writable]] += 1
            ended[live[writable]] = np.isin(drawn[writable], stops)
            running = ~ended[live]
            if not running.any() or t + 1 == steps:
                break
            if running.mean() < COMPACT_BELOW:
                keep = torch.from_numpy(np.flatnonzero(running)).to(device)
                _select(cache, keep)
                token, next_position = token[keep], next_position[keep]
                mask = None if mask is None else mask[keep]
                live = live[running]
            if mask is not None:
                mask = torch.cat([mask, mask.new_ones(len(mask), 1)], dim=1)
            logits = self._decode(token, next_position, mask, cache)
            next_position = next_position + 1
        return [
            Completion(ids=ids[i, :n].copy(), logprobs=logprobs[i, :n].copy(), finished=bool(ended[i]))
            for i, n in enumerate(lengths.tolist())
        ]

    def _choices(self, sampling: Sampling) -> Choices | None:
        end = int(self.processor.tokenizer.eos_token_id)
        found = [[*self.processor.encode(text).tolist(), end] for text in sampling.choices]
        return Choices(found) if found else None

    def _prefill(
        self, prompts: Sequence[Request], device: torch.device
    ) -> tuple[Tensor, DynamicCache, Tensor | None, Tensor]:
        """Next-token logits [R, V], the cache, the left-padding mask [R, P] (None when all prompts are
        equally long) and the next M-RoPE position [R]."""
        nothing = np.zeros(0, dtype=np.int64)
        rows = [Row(prompt=p.prompt_ids, images=p.images, completion=nothing) for p in prompts]
        packed = pack(rows, self.model, pad_id=self.processor.pad_id, device=device)
        inputs = decoder_inputs(self.model, packed)
        positions = packed.positions
        lengths = torch.tensor([len(p.prompt_ids) for p in prompts], device=device)
        longest = int(lengths.max())
        next_position = torch.stack(
            [positions[:, row, :n].max() + 1 for row, n in enumerate(lengths.tolist())]
        )
        mask = None
        if bool((lengths != longest).any()):
            # pack() pads on the right; roll each row so that its last token stands in the last column
            source = torch.arange(longest, device=device)[None] - (longest - lengths)[:, None]
            mask = (source >= 0).long()
            source = source.clamp(min=0)
            embeds = inputs["inputs_embeds"]
            inputs["inputs_embeds"] = embeds.gather(1, source[..., None].expand(-1, -1, embeds.shape[-1]))
            if "visual_pos_masks" in inputs:
                # padding repeats the first column, which may be an image token
                inputs["visual_pos_masks"] = inputs["visual_pos_masks"].gather(1, source) & mask.bool()
            positions = positions.gather(2, source[None].expand(3, -1, -1))
        cache = DynamicCache(config=self.model.config.get_text_config())
        hidden = self.model.model.language_model(
            **inputs,
            position_ids=place(self.model, positions),
            attention_mask=mask,
            past_key_values=cache,
            use_cache=True,
        ).last_hidden_state
        return self.model.lm_head(hidden[:, -1]), cache, mask, next_position

    def _decode(self, token: Tensor, position: Tensor, mask: Tensor | None, cache: DynamicCache) -> Tensor:
        hidden = self.model.model.language_model(
            inputs_embeds=self.model.get_input_embeddings()(token[:, None]),
            position_ids=place(self.model, position[None, :, None].expand(3, -1, -1)),
            attention_mask=mask,
            past_key_values=cache,
            use_cache=True,
        ).last_hidden_state
        return self.model.lm_head(hidden[:, -1])


def _select(cache: DynamicCache, rows: Any) -> None:
    """Keep these rows of the cache, in this order: keys and values, and recurrent states, which transformers'
    `batch_select_indices` does not know. `rows` [B] may name a row several times or not at all."""
    cache.reorder_cache(rows)


def _chunks(requests: Sequence[Request], size: int) -> list[list[tuple[int, int]]]:
    """(request index, seed) pairs in pieces of at most `size`; a group stays together where it fits."""
    pieces: list[list[tuple[int, int]]] = [[]]
    for owner, request in enumerate(requests):
        seeds = list(request.seeds)
        if len(pieces[-1]) + len(seeds) > size and pieces[-1]:
            pieces.append([])
        while seeds:
            room = size - len(pieces[-1])
            pieces[-1] += [(owner, seed) for seed in seeds[:room]]
            seeds = seeds[room:]
            if seeds:
                pieces.append([])
    return [piece for piece in pieces if piece]
