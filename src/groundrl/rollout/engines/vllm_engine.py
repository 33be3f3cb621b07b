"""vLLM in this process: token ids in, token ids and their log-probs out, weights pushed after every step."""

from __future__ import annotations

import gc
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from groundrl.errors import ConfigError, EngineError
from groundrl.models.lora import merged
from groundrl.models.processor import Processor
from groundrl.models.sharding import whole
from groundrl.rollout.engines.base import Completion, Given, Request, Sampling
from groundrl.rollout.engines.vllm import VllmConfig
from groundrl.rollout.engines.vllm_launch import (
    link_weights,
    sampling_params,
    scratch_folder,
    set_environment,
    start,
    write_folder,
    write_weights,
)
from groundrl.rollout.engines.vllm_prompt import Prompt, as_prompt, check_expanded, check_size

SEED_BITS = (1 << 63) - 1
"""vLLM takes seeds of 63 bits; ours have 64."""

_ALIVE: list[VllmEngine] = []
_CLOSED: list[Any] = []
"""Engines of this process; a closed one gives its memory back at once and ends with the last one."""


class VllmEngine:
    """An `Engine`. Log-probs are vLLM's `processed_logprobs`: after banning placeholders and temperature,
    which is the distribution the learner's Scorer uses."""

    def __init__(self, model: Any, processor: Processor, config: VllmConfig) -> None:
        cuda = torch.cuda.is_available()
        config.check_machine(cuda=cuda)
        set_environment(cuda=cuda)
        self.config = config
        self.processor = processor
        self.asleep = False
        self.through_files = config.tensor_parallel_size > 1
        self._scratch = scratch_folder()
        first = Path(self._scratch.name) / "first"
        write_folder(first, model, processor)
        link_weights(first, model)
        self.llm: Any = start(first, model, config, processor.family)
        _ALIVE.append(self)
        self.sync_weights(model)

    def generate(self, requests: Sequence[Request], sampling: Sampling) -> list[list[Completion]]:
        """Raises ConfigError for a request longer than max_model_len, EngineError after timeout_s."""
        if sampling.top_k > 0 or sampling.top_p < 1:
            raise ConfigError("rollout.top_k", "vllm cannot score untruncated", todo="use top_k=0 top_p=1")
        prompts: list[Prompt] = []
        params: list[Any] = []
        for request in requests:
            check_size(request, len(request.prompt_ids) + sampling.max_new_tokens, self.config)
            prompt = as_prompt(request.prompt_ids, request.images, self.processor)
            for seed in request.seeds:
                prompts.append(prompt)
                params.append(self._params(sampling, seed))
        outputs = iter(self._complete(prompts, params, "generate"))
        return [[self._completion(request, next(outputs)) for _ in request.seeds] for request in requests]

    def score(self, given: Sequence[Given]) -> list[NDArray[np.float32]]:
        prompts: list[Prompt] = []
        rows = [np.concatenate([one.prompt_ids, one.completion_ids]) for one in given]
        for one, ids in zip(given, rows, strict=True):
            check_size(one, len(ids) + 1, self.config)
            prompts.append(as_prompt(ids, one.images, self.processor))
        params = sampling_params(temperature=0.0, max_tokens=1, prompt_logprobs=0)
        out: list[NDArray[np.float32]] = []
        outputs = self._complete(prompts, [params] * len(prompts), "score")
        for one, ids, output in zip(given, rows, outputs, strict=True):
            check_expanded(ids, output.prompt_token_ids)
            first = len(one.prompt_ids)
            tokens = zip(ids[first:].tolist(), output.prompt_logprobs[first:], strict=True)
            out.append(np.array([known[token].logprob for token, known in tokens], dtype=np.float32))
        return out

    def sync_weights(self, model: Any) -> None:
        """Push `model`'s weights, adapters merged, and forget everything computed with the old ones."""
        self._wake()
        with torch.no_grad():
            weights = {name: whole(value) for name, value in merged(model).items()}
            if self.through_files:
                self._push_files(model, weights)
            else:
                given = {"weights_iterator": iter(weights.items())}
                self.llm.collective_rpc("reload_weights", kwargs=given)
        self.reset_caches()

    def _push_files(self, model: Any, weights: dict[str, torch.Tensor]) -> None:
        """For workers in other processes, which cannot be handed tensors of this one."""
        folder = Path(self._scratch.name) / "pushed"
        write_folder(folder, model, self.processor)
        write_weights(folder, weights)
        self.llm.collective_rpc("reload_weights", kwargs={"weights_path": str(folder)})

    def reset_caches(self) -> None:
        """Vision features, processed pictures and keys and values. All three hold what old weights made."""
        self.llm.reset_mm_cache()
        self.llm.llm_engine.reset_encoder_cache()
        if not self.llm.reset_prefix_cache():
            raise EngineError("vllm: the prefix cache could not be emptied; requests are still running")

    def release(self) -> None:
        """Weights go to main memory and the cache is dropped, if the settings say so."""
        if self.config.sleep and not self.asleep:
            self.llm.sleep(level=1)
            self.asleep = True

    def _wake(self) -> None:
        if self.asleep:
            self.llm.wake_up()
            self.asleep = False

    def close(self) -> None:
        if self not in _ALIVE:
            return
        _ALIVE.remove(self)
        self.llm.collective_rpc("shutdown")
        _CLOSED.append(self.llm)
        self.llm = None
        if not _ALIVE:  # ending an engine core ends what all engines of the process share
            for llm in _CLOSED:
                llm.llm_engine.engine_core.shutdown()
            _CLOSED.clear()
        gc.collect()
        self._scratch.cleanup()

    def _params(self, sampling: Sampling, seed: int) -> Any:
        return sampling_params(
            temperature=sampling.temperature,
            max_tokens=sampling.max_new_tokens,
            seed=seed & SEED_BITS,
            logprobs=0,
            stop_token_ids=sorted(self.processor.eos_ids),
            logit_bias=dict.fromkeys(self.processor.banned_ids, float("-inf")),
            choices=sampling.choices,
        )

    def _complete(self, prompts: list[Prompt], params: list[Any], stage: str) -> list[Any]:
        """One finished RequestOutput per prompt, in order."""
        self._wake()
        deadline = time.monotonic() + self.config.timeout_s
        engine = self.llm.llm_engine
        names = self.llm.enqueue(prompts, params, use_tqdm=False)
        # a request is known inside as `name-random` and outside as `name`
        numbers = {name.rsplit("-", 1)[0]: number for number, name in enumerate(names)}
        done: dict[int, Any] = {}
        while engine.has_unfinished_requests():
            if time.monotonic() > deadline:
                engine.abort_request(names, internal=True)
                raise EngineError(
                    f"vllm: {stage} took longer than {self.config.timeout_s:g} s with {len(done)} of "
                    f"{len(prompts)} requests done; raise rollout.engine.timeout_s"
                )
            for output in engine.step():
                if output.finished:
                    done[numbers[output.request_id]] = output
        return [done[number] for number in range(len(prompts))]

    def _completion(self, request: Request, output: Any) -> Completion:
        check_expanded(request.prompt_ids, output.prompt_token_ids)
        made = output.outputs[0]
        ids = np.asarray(made.token_ids, dtype=np.int64)
        chosen = zip(ids.tolist(), made.logprobs, strict=True)
        return Completion(
            ids=ids,
            logprobs=np.array([known[token].logprob for token, known in chosen], dtype=np.float32),
            finished=made.finish_reason == "stop",
        )
