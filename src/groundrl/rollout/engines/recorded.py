"""An engine that remembers what it drew, and one that gives it again without drawing.

A completion is known by its seed, which is derived from the run's seed, the step and the completion's place
(rollout/collect.py), whichever process draws it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from groundrl.errors import CheckpointError
from groundrl.rollout.engines.base import Completion, Engine, Given, Request, Sampling


class Recorder:
    """`engine`, whose completions are kept in `drawn` by seed."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.drawn: dict[int, Completion] = {}

    def generate(self, requests: Sequence[Request], sampling: Sampling) -> list[list[Completion]]:
        out = self.engine.generate(requests, sampling)
        for request, completions in zip(requests, out, strict=True):
            self.drawn.update(zip(request.seeds, completions, strict=True))
        return out

    def sync_weights(self, model: Any) -> None:
        self.engine.sync_weights(model)

    def score(self, given: Sequence[Given]) -> list[NDArray[np.float32]]:
        return self.engine.score(given)

    def reset_caches(self) -> None:
        self.engine.reset_caches()

    def release(self) -> None:
        self.engine.release()

    def close(self) -> None:
        self.engine.close()


class Replay(Recorder):
    """Gives `drawn` again. Raises CheckpointError for a completion that is not among them."""

    def __init__(self, engine: Engine, drawn: dict[int, Completion]) -> None:
        super().__init__(engine)
        self.drawn = drawn

    def generate(self, requests: Sequence[Request], sampling: Sampling) -> list[list[Completion]]:
        try:
            return [[self.drawn[seed] for seed in request.seeds] for request in requests]
        except KeyError:
            raise CheckpointError(
                "the checkpoint lacks a rollout that was drawn ahead; resume with the number of processes "
                "that wrote it"
            ) from None


def to_json(drawn: Mapping[int, Completion]) -> dict[str, Any]:
    """Plain JSON types; float32 log-probs come back to the bit."""
    return {
        str(seed): {"ids": one.ids.tolist(), "logprobs": one.logprobs.tolist(), "finished": one.finished}
        for seed, one in drawn.items()
    }


def from_json(values: Mapping[str, Any]) -> dict[int, Completion]:
    return {
        int(seed): Completion(
            ids=np.array(one["ids"], dtype=np.int64),
            logprobs=np.array(one["logprobs"], dtype=np.float32),
            finished=one["finished"],
        )
        for seed, one in values.items()
    }
