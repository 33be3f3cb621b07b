"""One server of a fleet: whether it is well, and which weights it has."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from groundrl.errors import ConfigError, EngineError
from groundrl.rollout.engines.vllm_server import Transfer
from groundrl.rollout.engines.vllm_server_device import Weights, Wire
from groundrl.rollout.engines.vllm_server_link import Link, LostError, SlowError
from groundrl.rollout.engines.vllm_server_process import ServerProcess

PROBE_S = 10.0
"""A server that does not answer a probe for so long is not well."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pushed:
    """Weights of one learner step: a name that no other weights have, and how they are had: from a folder, or
    over `transfer` while `weights` are there (during the push only)."""

    version: str
    folder: Path | None = None
    transfer: Transfer = Transfer.path
    weights: Weights | None = None


class Member:
    """`process` is None for a server that was given by its address."""

    def __init__(self, *, url: str, key: str | None, process: ServerProcess | None) -> None:
        self._key = key
        self.process = process
        self.link = Link(url, key)
        self.was_well = False
        self.asleep = False
        self.wire: Wire | None = None

    def keep_running(self) -> None:
        """Start the process again if it ended. Raises EngineError if it never came up."""
        process = self.process
        if process is None or process.exit_code is None:
            return
        if not self.was_well:
            code = process.exit_code
            raise EngineError(
                f"vllm_server: a server ended with code {code} while it started; its last lines:\n"
                f"{process.tail()}"
            )
        self.start()

    def start(self) -> None:
        if self.process is not None:
            self.process.start()
            self.link = Link(self.process.url, self._key)
            self.was_well = self.asleep = False
            self.wire = None

    def is_well(self, timeout_s: float = PROBE_S) -> bool:
        try:
            self.link.call("GET", "/health", deadline=time.monotonic() + min(timeout_s, PROBE_S))
        except (LostError, SlowError):
            return False
        self.was_well = True
        return True

    def check_settings(self, max_model_len: int) -> None:
        """Raise ConfigError for a given server whose answers could not be used."""
        told = self._call("GET", "/server_info?config_format=json")["vllm_config"]["model_config"]
        mode, length = told["logprobs_mode"], int(told["max_model_len"])
        if mode != "processed_logprobs":
            raise ConfigError(
                "rollout.engine.urls",
                f"{self.link.url} gives log-probs of another distribution than the one it draws from",
                got=mode,
                todo="start it with --logprobs-mode processed_logprobs",
            )
        if length < max_model_len:
            raise ConfigError(
                "rollout.engine.max_model_len",
                f"{self.link.url} takes {length} tokens",
                got=max_model_len,
                todo="lower it, or start the server with a higher --max-model-len",
            )

    def update(self, pushed: Pushed, deadline: float) -> None:
        """Give it the weights unless it has them. It forgets their name when it starts anew, so one that was
        started again gets them before it is asked anything."""
        if self.asleep:
            self._call("POST", "/wake_up", deadline=deadline)
            self.asleep = False
        if self._call("GET", "/weight_info", deadline=deadline)["weight_version"] == pushed.version:
            return
        if pushed.folder is not None:
            body = {"method": "reload_weights", "kwargs": {"weights_path": str(pushed.folder)}}
            self._call("POST", "/collective_rpc", body, deadline=deadline)
        elif pushed.weights is not None:
            if self.wire is None:
                self.wire = Wire(self.link, pushed.transfer)
            self.wire.send(pushed.weights, deadline)
        else:
            raise EngineError(
                f"vllm_server: {self.link.url} has lost the weights, and with rollout.engine.transfer="
                f"{pushed.transfer.value} they are kept nowhere else; resume the run, or use transfer=path"
            )
        self.reset_caches(deadline)
        self._call("POST", "/update_weight_version", {"new_version": pushed.version}, deadline=deadline)

    def reset_caches(self, deadline: float) -> None:
        """Processed pictures, vision features, keys and values."""
        self._call("POST", "/reset_mm_cache", deadline=deadline)
        self._call("POST", "/reset_encoder_cache", deadline=deadline)
        while not self._call("POST", "/reset_prefix_cache", deadline=deadline)["success"]:
            time.sleep(0.1)  # requests of a call that was given up are still being ended

    def sleep(self, deadline: float) -> None:
        if not self.asleep:
            self._call("POST", "/sleep?level=1", deadline=deadline)
            self.asleep = True

    def trouble(self) -> str:
        """Where it is, and what its log says."""
        if self.process is None:
            return self.link.url
        return f"{self.link.url}; its last lines:\n{self.process.tail()}"

    def _call(self, method: str, path: str, body: object = None, *, deadline: float | None = None) -> Any:
        return self.link.call(
            method, path, body, deadline=time.monotonic() + PROBE_S if deadline is None else deadline
        )
