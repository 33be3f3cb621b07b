"""A vLLM server that this process starts, restarts and ends."""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from groundrl.rollout.engines.vllm_launch import ON_CPU

SERVED = {
    "VLLM_SERVER_DEV_MODE": "1",  # opens the calls that push weights and empty caches
    "VLLM_ENABLE_V1_MULTIPROCESSING": "1",
    "VLLM_NO_USAGE_STATS": "1",
}
NOT_PASSED = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT")
"""torchrun's words to this process; a server is none of the run's processes."""

LINES, WIDTH = 20, 300
"""How much of a server's log an error repeats (a crash prints whole pictures)."""

ENDING_S = 10.0

_STARTER = ThreadPoolExecutor(1, thread_name_prefix="groundrl-starter")
"""A server ends with the thread that started it, so all are started by one that lives as long as this
process; the one that draws may end before."""


def arguments(settings: Mapping[str, Any]) -> list[str]:
    """Settings of vLLM as words of its command line."""
    words: list[str] = []
    for name, value in settings.items():
        word = name.replace("_", "-")
        if isinstance(value, bool):
            words.append(f"--{word}" if value else f"--no-{word}")
        else:
            text = json.dumps(value) if isinstance(value, dict) else str(value)
            words += [f"--{word}", text]
    return words


class ServerProcess:
    """The server's process group, on a free port of this machine that nobody else can reach."""

    def __init__(
        self,
        words: list[str],
        log: Path,
        *,
        cuda: bool,
        devices: str | None,
        key: str | None,
        pickles: bool = False,
    ) -> None:
        """pickles: whether it takes CUDA IPC handles. They come pickled: whoever may call it can run code."""
        self.words = words
        self.log = log
        self.cuda = cuda
        self.devices = devices
        self.pickles = pickles
        self._key = key
        self.url = ""
        self._process: subprocess.Popen[bytes] | None = None
        atexit.register(self.stop)

    def start(self) -> None:
        """Begin anew. To be called from the main thread or from the one that draws."""
        self.stop()
        port = free_port()
        self.url = f"http://127.0.0.1:{port}"
        words = ["--host", "127.0.0.1", "--port", str(port), *self.words]
        starter = [sys.executable, "-m", "groundrl.rollout.engines.vllm_server_start", str(os.getpid())]
        with self.log.open("ab") as log:
            self._process = _STARTER.submit(
                subprocess.Popen[bytes],
                [*starter, *words],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=self.environment(),
                start_new_session=True,  # an interrupt of the run is not one of its servers
            ).result()

    def environment(self) -> dict[str, str]:
        """The key is in the environment, where other users do not see it."""
        passed = {name: value for name, value in os.environ.items() if name not in NOT_PASSED}
        own = SERVED if self.cuda else SERVED | ON_CPU
        passed = {"VLLM_LOGGING_LEVEL": "WARNING"} | passed | own
        if self.pickles:
            passed["VLLM_ALLOW_INSECURE_SERIALIZATION"] = "1"
        if self.devices is not None:
            passed["CUDA_VISIBLE_DEVICES"] = self.devices
        if self._key:
            passed["VLLM_API_KEY"] = self._key
        return passed

    @property
    def exit_code(self) -> int | None:
        """None while it runs."""
        return None if self._process is None else self._process.poll()

    @property
    def pid(self) -> int | None:
        return None if self._process is None else self._process.pid

    def tail(self) -> str:
        """The log's last lines."""
        with self.log.open("rb") as file:
            file.seek(max(0, self.log.stat().st_size - (1 << 16)))
            text = file.read().decode("utf-8", errors="replace")
        lines = [line.rstrip()[:WIDTH] for line in text.splitlines() if line.strip()]
        shown = "\n".join(lines[-LINES:])
        return shown.replace(self._key, "***") if self._key else shown

    def stop(self) -> None:
        """End the whole group."""
        if self._process is None:
            return
        process, self._process = self._process, None
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGTERM)
        deadline = time.monotonic() + ENDING_S
        # the engine's process outlives a killed server, and what cleans shared memory up outlives both
        while _group_lives(process) and time.monotonic() < deadline:
            time.sleep(0.05)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()

    def close(self) -> None:
        self.stop()
        atexit.unregister(self.stop)


def _group_lives(process: subprocess.Popen[bytes]) -> bool:
    process.poll()  # one that has ended counts until it is asked
    try:
        os.killpg(process.pid, 0)
    except ProcessLookupError:
        return False
    return True


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
