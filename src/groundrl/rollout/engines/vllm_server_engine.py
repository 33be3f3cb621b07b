"""The `Engine` on vLLM servers: token ids and pictures over HTTP, weights through files."""

from __future__ import annotations

import contextlib
import shutil
import tempfile
import threading
import uuid
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from groundrl.errors import ConfigError
from groundrl.models.lora import merged
from groundrl.models.processor import Processor
from groundrl.models.sharding import whole
from groundrl.rollout.engines.base import Completion, Given, Request, Sampling
from groundrl.rollout.engines.vllm_launch import scratch_folder, write_folder, write_weights
from groundrl.rollout.engines.vllm_prompt import check_size
from groundrl.rollout.engines.vllm_server import Transfer, VllmServerConfig
from groundrl.rollout.engines.vllm_server_device import Weights
from groundrl.rollout.engines.vllm_server_fleet import Ask, Fleet
from groundrl.rollout.engines.vllm_server_member import Pushed
from groundrl.rollout.engines.vllm_server_shared import join, leave, way
from groundrl.rollout.engines.vllm_server_wire import (
    SCORING,
    Body,
    completion_of,
    drawing,
    prompt_body,
    scores_of,
)


class VllmServerEngine:
    """An `Engine`. Every answer names the weights that made it; one made with others is asked again."""

    def __init__(self, model: Any, processor: Processor, config: VllmServerConfig) -> None:
        self.config = config
        self.processor = processor
        self._name = uuid.uuid4().hex[:12]
        self._pushes = 0
        self._abandoned = threading.Event()
        folder = config.weights_folder
        if folder is not None and not Path(folder).is_dir():
            raise ConfigError("rollout.engine.weights_folder", "is no folder", got=folder, todo="make it")
        if folder is None:
            self._scratch = scratch_folder()
        else:
            self._scratch = tempfile.TemporaryDirectory(prefix="groundrl-vllm-", dir=folder)
        self.transfer = way(config)
        self.pushed: Pushed | None = None
        self.fleet: Fleet | None = None
        with contextlib.ExitStack() as undo:
            undo.callback(self._scratch.cleanup)
            self.fleet = join(model, processor, config)
            undo.callback(leave, self.fleet)
            self.sync_weights(model)
            undo.pop_all()

    def generate(self, requests: Sequence[Request], sampling: Sampling) -> list[list[Completion]]:
        """Raises ConfigError for a request longer than max_model_len, EngineError when servers fail."""
        if sampling.top_k > 0 or sampling.top_p < 1:
            raise ConfigError("rollout.top_k", "vllm cannot score untruncated", todo="use top_k=0 top_p=1")
        asks: list[Ask] = []
        for group, request in enumerate(requests):
            check_size(request, len(request.prompt_ids) + sampling.max_new_tokens, self.config)
            prompt = prompt_body(request.prompt_ids, request.images, self.processor)
            for seed in request.seeds:
                drawn = drawing(sampling, seed, self.processor)
                asks.append(Ask(group=group, body={**prompt, "sampling_params": drawn}))
        answers = iter(self._ask(asks, "generate"))
        return [[completion_of(request, next(answers)) for _ in request.seeds] for request in requests]

    def score(self, given: Sequence[Given]) -> list[NDArray[np.float32]]:
        asks: list[Ask] = []
        for group, one in enumerate(given):
            ids = np.concatenate([one.prompt_ids, one.completion_ids])
            check_size(one, len(ids) + 1, self.config)
            prompt: Body = prompt_body(ids, one.images, self.processor)
            asks.append(Ask(group=group, body={**prompt, "sampling_params": SCORING}))
        answers = self._ask(asks, "score")
        return [scores_of(one, answer) for one, answer in zip(given, answers, strict=True)]

    def sync_weights(self, model: Any) -> None:
        """Hand `model`'s weights, adapters merged, to every server: files to read, or from GPU to GPU."""
        old = self.pushed
        self._pushes += 1
        version = f"{self._name}-{self._pushes}"
        with torch.no_grad():
            weights = {name: whole(value) for name, value in merged(model).items()}
            if self.transfer is Transfer.path:
                folder = Path(self._scratch.name) / version
                write_folder(folder, model, self.processor)
                write_weights(folder, weights)
                self.pushed = Pushed(version=version, folder=folder)
            else:
                self.pushed = Pushed(version=version, transfer=self.transfer, weights=Weights(weights))
            self._ask([], "sync_weights")
        self.pushed = replace(self.pushed, weights=None)
        if old is not None and old.folder is not None:
            shutil.rmtree(old.folder)

    def reset_caches(self) -> None:
        if self.fleet is not None:
            self.fleet.reset_caches(self.config)

    def release(self) -> None:
        """The servers drop their caches and keep their weights in main memory, if the settings say so."""
        if self.config.sleep and self.fleet is not None:
            self.fleet.sleep(self.config)

    @property
    def concurrent(self) -> bool:
        """Servers draw while the learner steps, unless they lend it their memory meanwhile."""
        return not self.config.sleep

    def abandon(self) -> None:
        self._abandoned.set()
        if self.fleet is not None:
            self.fleet.cancel()

    def close(self) -> None:
        if self.fleet is None:
            return
        leave(self.fleet)
        self.fleet = None
        self._scratch.cleanup()

    def _ask(self, asks: Sequence[Ask], stage: str) -> list[Any]:
        assert self.fleet is not None, "the engine is closed"
        assert self.pushed is not None
        return self.fleet.ask(asks, self.pushed, self.config, stage, self._abandoned)
