"""The learner: from experience to an updated policy.

A batch is scored once if old or reference log-probs are needed, then passed over `num_iterations` times in
`mini_batches` optimiser steps each; the rows of one rollout stay in one mini-batch. Rows are grouped in
micro-batches (learner/micro_batches.py) only for memory: token weights are made for the whole optimiser
batch, so accumulation changes nothing but rounding.

With several processes the batch is the union of theirs: counts and metrics are added up, every process makes
as many passes as the one with the most micro-batches, and gradients are averaged by FSDP.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from groundrl.errors import NonFiniteError
from groundrl.learner.config import Decay, OptimConfig, SharedPrefix
from groundrl.learner.experience import Experience
from groundrl.learner.logprobs import Scorer
from groundrl.learner.master import MasterWeights
from groundrl.learner.micro_batches import Limit, micro_batches
from groundrl.learner.nonfinite import Skipped, faults_of
from groundrl.learner.objective import Batch, Objective
from groundrl.learner.staleness import old_logprobs
from groundrl.losses.config import Normalisation
from groundrl.losses.normalise import token_weights
from groundrl.models.forward import Row
from groundrl.models.sharding import whole
from groundrl.models.shared_prefix import obstacle
from groundrl.world import World


@dataclass(slots=True, kw_only=True)
class Plan:
    """How a batch becomes optimiser steps. engine_ratio: see learner/staleness.py."""

    num_steps: int
    lr: float
    num_iterations: int
    mini_batches: int
    normalisation: Normalisation
    constant_length: int
    engine_ratio: bool = False


class Learner:
    """Owns the trainable model and its optimiser.

    `reference`: a function that scores rows under the reference policy, or None.
    """

    def __init__(
        self,
        model: Any,
        scorer: Scorer,
        objective: Objective,
        plan: Plan,
        optim: OptimConfig,
        reference: Callable[[Sequence[Any]], Tensor] | None = None,
        world: World | None = None,
    ) -> None:
        self.world = world or World()
        self.model = model
        self.scorer = scorer
        self.objective = objective
        self.plan = plan
        self.optim = optim
        self.reference = reference
        self.master = MasterWeights(model.named_parameters())
        self.parameters = self.master.parameters
        self.optimizer = torch.optim.AdamW(
            self.parameters,
            lr=plan.lr,
            betas=(optim.betas[0], optim.betas[1]),
            weight_decay=optim.weight_decay,
            fused=True,
        )
        self.updates = 0
        self.nonfinite_in_a_row = 0
        self.on_skip: Callable[[Skipped], None] | None = None

    def lr_at(self, update: int) -> float:
        """Learning rate of optimiser step `update` (from 0)."""
        total = max(1, self.plan.num_steps * self.plan.num_iterations * self.plan.mini_batches)
        warm = self.optim.warmup_steps
        if update < warm:
            return self.plan.lr * (update + 1) / warm
        share = min(1.0, (update - warm) / max(1, total - warm))
        if self.optim.decay is Decay.linear:
            return self.plan.lr * (1 - share)
        if self.optim.decay is Decay.cosine:
            return self.plan.lr * 0.5 * (1 + math.cos(math.pi * share))
        return self.plan.lr

    def step(self, experience: Sequence[Experience]) -> dict[str, float]:
        """Learn from one batch; returns metrics, means over the batch's selected tokens."""
        rows = list(experience)
        total = sum(self.world.gather(len(rows)))
        if not total:
            return {"learner/rows": 0.0, "learner/lr": self.lr_at(self.updates)}
        off_policy = self.plan.num_iterations * self.plan.mini_batches > 1
        # without dropout, as the engine drew
        self.model.eval()
        old = old_logprobs(
            rows,
            self.world,
            off_policy=off_policy,
            engine_ratio=self.plan.engine_ratio,
            score=lambda: self._score(rows, self._policy_logprobs),
        )
        reference = self._score(rows, self.reference) if self.reference is not None else None
        self.model.train()
        owners = np.array([row.rollout for row in rows])
        collected: list[dict[str, float]] = []
        for _ in range(self.plan.num_iterations):
            for names in np.array_split(np.unique(owners), self.plan.mini_batches):
                part = np.flatnonzero(np.isin(owners, names)).tolist()
                if sum(self.world.gather(len(part))):
                    collected.append(self._update(rows, part, old, reference))
        keys = {name for entry in collected for name in entry}
        out = {f"learner/{n}": float(np.mean([e[n] for e in collected if n in e])) for n in sorted(keys)}
        out["learner/rows"] = float(total)
        return out

    def _policy_logprobs(self, rows: Sequence[Any]) -> Tensor:
        return self.scorer(self.model, rows).logprobs

    def _score(self, rows: list[Experience], score: Callable[[Sequence[Any]], Tensor]) -> list[Tensor]:
        """Per-row log-probs without gradient, each cut to its row's length."""
        out: dict[int, Tensor] = {}
        with torch.no_grad():
            for piece in self._pieces(rows, list(range(len(rows)))):
                scores = score(self._rows(rows, piece))
                out |= {i: scores[k, : len(rows[i].row.completion)] for k, i in enumerate(piece)}
        return [out[i] for i in range(len(rows))]

    def _pieces(self, rows: Sequence[Experience], part: Sequence[int]) -> list[list[int]]:
        """The rows `part` in micro-batches; empty ones at the end where other processes have more."""
        tokens, shared = self.optim.micro_tokens, self.optim.shared_prefix is SharedPrefix.auto
        if tokens is not None:
            shared = shared and obstacle(self.model) is None
        limit = Limit(rows=self.optim.micro_batch, tokens=tokens, shared=shared)
        pieces = [[part[k] for k in piece] for piece in micro_batches([rows[i].row for i in part], limit)]
        most = max(self.world.gather(len(pieces)))
        return pieces + [[] for _ in range(most - len(pieces))]

    def _rows(self, rows: list[Experience], piece: list[int]) -> list[Row]:
        """The rows of a micro-batch; one of two tokens, that counts for nothing, for an empty one."""
        if piece:
            return [rows[i].row for i in piece]
        nothing = np.full(1, self.scorer.pad_id, dtype=np.int64)
        return [Row(prompt=nothing, images=(), completion=nothing)]

    def _update(
        self,
        rows: list[Experience],
        part: list[int],
        old: list[Tensor] | None,
        reference: list[Tensor] | None,
    ) -> dict[str, float]:
        """One optimiser step on the rows `part`."""
        weights, tokens = self._weights(rows, part)
        self.optimizer.zero_grad(set_to_none=True)
        sums: dict[str, float] = {}
        loss = 0.0
        place = {number: k for k, number in enumerate(part)}
        for piece in self._pieces(rows, part):
            scores = self.scorer(self.model, self._rows(rows, piece))
            if not piece:
                (0.0 * scores.logprobs.sum()).backward()
                self.master.take_gradients()
                continue
            own = weights[[place[number] for number in piece]]
            batch = self._batch(rows, piece, own, scores.mask, old, reference)
            value, terms = self.objective(scores, batch)
            (value * self.world.size).backward()
            self.master.take_gradients()
            loss += float(value.detach())
            _add(sums, {name: float(term) for name, term in terms.items()})
        total = {"loss": 0.0}
        for own in self.world.gather({"loss": loss, **sums}):
            _add(total, own)
        loss = total.pop("loss")
        norm = float(whole(torch.nn.utils.clip_grad_norm_(self.parameters, self.optim.max_grad_norm)))
        lr = self.lr_at(self.updates)
        self.updates += 1
        metrics = {
            name.removeprefix("max/"): value if name.startswith("max/") else value / max(1, tokens)
            for name, value in total.items()
        }
        metrics |= {"loss": loss, "grad_norm": norm, "lr": lr, "skipped": 0.0}
        if not (math.isfinite(loss) and math.isfinite(norm)):
            self._explain(rows, part, weights, old, reference)
            return self._skip(metrics)
        self.nonfinite_in_a_row = 0
        for group in self.optimizer.param_groups:
            group["lr"] = lr
        self.optimizer.step()
        self.master.write_back()
        return metrics

    def _weights(self, rows: list[Experience], part: list[int]) -> tuple[NDArray[np.float64], int]:
        """Weight of each token of the rows `part` [P], made for the union of all processes' rows, and the
        number of selected tokens in that."""
        own = [(int(rows[i].selected.sum()), rows[i].rollout) for i in part]
        everyone = self.world.gather(own)
        counts = np.array([count for piece in everyone for count, _ in piece], dtype=np.int64)
        names: dict[tuple[int, int], int] = {}
        owners = np.array(
            [
                names.setdefault((rank, rollout), len(names))
                for rank, piece in enumerate(everyone)
                for _, rollout in piece
            ],
            dtype=np.int64,
        )
        weights = token_weights(counts, owners, self.plan.normalisation, self.plan.constant_length)
        start = sum(len(piece) for piece in everyone[: self.world.rank])
        return weights[start : start + len(own)], int(counts.sum())

    def _explain(
        self,
        rows: list[Experience],
        part: list[int],
        weights: NDArray[np.float64],
        old: list[Tensor] | None,
        reference: list[Tensor] | None,
    ) -> None:
        """Score each row of a step that is to be skipped alone, and tell `on_skip` what is wrong with it."""
        if self.on_skip is None:
            return
        self.optimizer.zero_grad(set_to_none=True)
        stored = list(self.master.stored.values()) if self.world.alone else []
        faults: list[tuple[str, ...]] = []
        for number in range(max(self.world.gather(len(part)))):
            piece = part[number : number + 1]
            with torch.set_grad_enabled(self.world.alone):
                scores = self.scorer(self.model, self._rows(rows, piece))
                if not piece:
                    continue
                batch = self._batch(rows, piece, weights[number : number + 1], scores.mask, old, reference)
                value, _ = self.objective(scores, batch)
                faults.append(faults_of(scores.logprobs[batch.selected], value, stored))
        self.on_skip(Skipped(update=self.updates, rows=[rows[i] for i in part], faults=faults))

    def _skip(self, metrics: dict[str, float]) -> dict[str, float]:
        self.optimizer.zero_grad(set_to_none=True)
        self.nonfinite_in_a_row += 1
        if self.nonfinite_in_a_row >= self.optim.max_nonfinite:
            raise NonFiniteError(
                f"loss {metrics['loss']}, gradient norm {metrics['grad_norm']}: not finite in "
                f"{self.nonfinite_in_a_row} optimiser steps in a row; lower algorithm.lr or resume from an "
                "earlier checkpoint"
            )
        return {"lr": metrics["lr"], "skipped": 1.0}

    def _batch(
        self,
        rows: list[Experience],
        part: list[int],
        weights: Any,
        mask: Tensor,
        old: list[Tensor] | None,
        reference: list[Tensor] | None,
    ) -> Batch:
        device, shape = mask.device, mask.shape
        selected = np.zeros(shape, dtype=bool)
        behaviour = np.full(shape, np.nan, dtype=np.float32)
        for k, i in enumerate(part):
            n = len(rows[i].row.completion)
            selected[k, :n] = rows[i].selected
            behaviour[k, :n] = rows[i].behaviour_logprobs
        chosen = torch.from_numpy(selected).to(device)

        def padded(values: list[Tensor] | None) -> Tensor | None:
            if values is None:
                return None
            out = torch.zeros(shape, device=device)
            for k, i in enumerate(part):
                out[k, : len(values[i])] = values[i]
            return out

        return Batch(
            selected=chosen,
            weights=torch.tensor(weights, dtype=torch.float32, device=device)[:, None] * chosen,
            advantages=torch.tensor([rows[i].advantage for i in part], dtype=torch.float32, device=device),
            behaviour_logprobs=torch.from_numpy(behaviour).to(device),
            old_logprobs=padded(old),
            reference_logprobs=padded(reference),
        )


def _add(sums: dict[str, float], terms: dict[str, float]) -> None:
    """Add `terms` to `sums`; `max/...` are maxima."""
    for name, term in terms.items():
        known = sums.get(name, 0.0)
        sums[name] = max(known, term) if name.startswith("max/") else known + term
