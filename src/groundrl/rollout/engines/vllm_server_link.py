"""One server over HTTP: JSON in, JSON out, and two ways to fail that can be told apart."""

from __future__ import annotations

import contextlib
import http.client
import json
import socket
import threading
import time
from typing import Any
from urllib.parse import urlsplit

from groundrl.errors import EngineError

SHOWN = 400
"""Characters of a server's refusal that an error repeats."""


class LostError(EngineError):
    """The connection broke or the server failed (a status of 500 or more): it may be asked again."""


class SlowError(EngineError):
    """No answer in time."""


class Link:
    """Calls to one address. A connection a call: one that was kept could have been closed meanwhile."""

    def __init__(self, url: str, key: str | None) -> None:
        self.url = url
        self._key = key
        self._open: set[socket.socket] = set()
        self._lock = threading.Lock()

    def call(self, method: str, path: str, body: Any = None, *, deadline: float) -> Any:
        """The parsed answer (None for an empty one). deadline: on time.monotonic().

        Raises LostError, SlowError, and EngineError for a request that the server refused.
        """
        parts = urlsplit(self.url)
        kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
        connection = kind(parts.hostname or "", parts.port)
        headers = {"Content-Type": "application/json"}
        if self._key:
            headers["Authorization"] = f"Bearer {self._key}"
        opened: Any = None
        try:
            connection.timeout = _left(deadline)
            connection.connect()
            opened = connection.sock
            with self._lock:
                self._open.add(opened)
            data = None if body is None else json.dumps(body).encode()
            connection.request(method, path, body=data, headers=headers)
            opened.settimeout(_left(deadline))
            with connection.getresponse() as response:
                pieces: list[bytes] = []
                while not pieces or pieces[-1]:
                    opened.settimeout(_left(deadline))
                    pieces.append(response.read1(1 << 20))
            return self._answer(path, response.status, b"".join(pieces))
        except TimeoutError as error:
            raise SlowError(f"{self.url}{path}: no answer in time") from error
        except (OSError, http.client.HTTPException) as error:
            raise LostError(f"{self.url}{path}: {type(error).__name__}: {error}") from error
        finally:
            if opened is not None:
                with self._lock:
                    self._open.discard(opened)
            connection.close()

    def cancel(self) -> None:
        """Break all calls that are under way; the server ends their requests."""
        with self._lock:
            for opened in self._open:
                with contextlib.suppress(OSError):
                    opened.shutdown(socket.SHUT_RDWR)

    def without_key(self, text: str) -> str:
        """What a server said, fit for a log."""
        return text.replace(self._key, "***") if self._key else text

    def _answer(self, path: str, status: int, content: bytes) -> Any:
        said = self.without_key(content.decode("utf-8", errors="replace"))[:SHOWN]
        if status >= 500:
            raise LostError(f"{self.url}{path}: status {status}: {said}")
        if status in (401, 403):
            raise EngineError(
                f"vllm_server: {self.url}{path} refused the call with status {status}: {said}; set the "
                "variable that rollout.engine.api_key_env names, and start the server with --enable-scale-out"
            )
        if status == 404:
            raise EngineError(
                f"vllm_server: {self.url} has no {path}; start it with VLLM_SERVER_DEV_MODE=1 and "
                "--enable-scale-out"
            )
        if status >= 400:
            raise EngineError(f"vllm_server: {self.url}{path} refused the call with status {status}: {said}")
        if not content:
            return None
        try:
            return json.loads(content)
        except ValueError as error:
            raise LostError(f"{self.url}{path}: the answer is not JSON: {said}") from error


def _left(deadline: float) -> float:
    """Seconds until then; raises TimeoutError when there are none."""
    left = deadline - time.monotonic()
    if left <= 0:
        raise TimeoutError
    return left
