"""`rollout/engine=scripted`: answers from a function, for tests of everything around an engine."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from groundrl.config.registry import register
from groundrl.errors import ConfigError
from groundrl.models.processor import Processor
from groundrl.rollout.engines.base import Completion, EngineConfig, Given, Request, Sampling

Script = Callable[[Request, int, int], str]
"""(request, request index, completion index) -> the text to answer."""


class ScriptedEngine:
    """Answers with a script's text, as ids with log-prob 0; cut at max_new_tokens like any other."""

    def __init__(self, script: Script, processor: Processor) -> None:
        self.script = script
        self.processor = processor

    def generate(self, requests: Sequence[Request], sampling: Sampling) -> list[list[Completion]]:
        out: list[list[Completion]] = []
        for number, request in enumerate(requests):
            row: list[Completion] = []
            for index in range(len(request.seeds)):
                text = self.script(request, number, index)
                ids = np.append(self.processor.encode(text), self.processor.tokenizer.eos_token_id)
                finished = len(ids) <= sampling.max_new_tokens
                ids = ids[: sampling.max_new_tokens].astype(np.int64)
                row.append(
                    Completion(ids=ids, logprobs=np.zeros(len(ids), dtype=np.float32), finished=finished)
                )
            out.append(row)
        return out

    def sync_weights(self, model: Any) -> None:
        return None

    def score(self, given: Sequence[Given]) -> list[NDArray[np.float32]]:
        """A script is certain of everything."""
        return [np.zeros(len(one.completion_ids), dtype=np.float32) for one in given]

    def reset_caches(self) -> None:
        return None

    def release(self) -> None:
        return None

    def close(self) -> None:
        return None


@register("rollout/engine", "scripted")
@dataclass(kw_only=True, slots=True)
class ScriptedEngineConfig(EngineConfig):
    """Every completion is `text`."""

    text: str = "<think>nothing</think><answer>None</answer>"

    def __post_init__(self) -> None:
        EngineConfig.__post_init__(self)
        if not self.text:
            raise ConfigError("text", "must not be empty", got=self.text, todo="give the answer to script")

    def build(self, model: Any, processor: Processor) -> ScriptedEngine:
        return ScriptedEngine(lambda request, number, index: self.text, processor)
