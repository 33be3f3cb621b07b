"""An HTTP server that speaks as much of vLLM's as the engine needs, and fails as it is told."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from groundrl.rollout.engines.vllm_server import VllmServerConfig
from groundrl.rollout.engines.vllm_server_fleet import Fleet
from groundrl.rollout.engines.vllm_server_member import Member

FRESH = "default"
"""What vLLM calls the weights that it started with."""


class FakeServer:
    """Answers a prompt with its own last token, each token of log-prob -(number of weights it was given).

    lose, fail   how many more requests get no answer (the connection is closed), or status 500
    drawing      requests that are being answered; overtaken: those of them that a push met
    forget       at which request (counted from 1) it has the weights and the caches of a new start
    silent       paths that are never answered
    before       called with each request before it is answered
    draw         the tokens of an answer, from the request and the log-prob of its weights
    expand       the prompt as the server's own image processor expands it
    weigh        the log-prob that weights stand for, from all the folders that were given
    """

    def __init__(self, *, key: str | None = None) -> None:
        self.key = key
        self.version = FRESH
        self.calls: list[str] = []
        self.asked: list[list[int]] = []
        self.given: list[str] = []
        self.bodies: dict[str, Any] = {}
        self.lose = self.fail = self.forget = self.busy = 0
        self.silent: set[str] = set()
        self.status = 0
        self.told = {"logprobs_mode": "processed_logprobs", "max_model_len": 4096}
        self.before: Callable[[], None] = lambda: None
        self.draw: Callable[[Any, float], list[int]] = lambda body, logprob: [body["token_ids"][-1]]
        self.expand: Callable[[Any], list[int]] = lambda body: body["token_ids"]
        self.weigh: Callable[[list[str]], float] = lambda given: -float(len(given))
        self.logprob = 0.0
        self.drawing, self.overtaken = 0, 0
        self.ended = threading.Event()
        self.lock = threading.Lock()
        self.http = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self.url = f"http://127.0.0.1:{self.http.server_address[1]}"

    def answer(self, path: str, body: Any) -> tuple[int, Any]:
        """Status and content; status 0: none, the connection is closed."""
        with self.lock:
            self.calls.append(path)
            self.bodies[path] = body
        if path in self.silent:
            self.ended.wait()
            return 0, None
        if path == "/inference/v1/generate":
            return self._generated(body)
        if path == "/get_world_size":
            return 200, {"world_size": 2}
        if path == "/weight_info":
            return 200, {"weight_version": self.version}
        if path == "/collective_rpc":
            self.given.append(body["kwargs"]["weights_path"])
            self.logprob = self.weigh(self.given)
            self.overtaken += self.drawing
        if path == "/update_weight_version":
            self.version = body["new_version"]
        if path == "/reset_prefix_cache":
            self.busy -= 1
            return 200, {"success": self.busy < 0}
        if path.startswith("/server_info"):
            return 200, {"vllm_config": {"model_config": self.told}}
        return 200, None

    def _generated(self, body: Any) -> tuple[int, Any]:
        with self.lock:
            self.asked.append(body["token_ids"])
            if self.forget == len(self.asked):
                self.version, self.forget = FRESH, 0
            lost, failed = self.lose > 0, self.fail > 0
            self.lose -= lost
            self.fail -= failed
            self.drawing += 1
        try:
            self.before()
        finally:
            with self.lock:
                self.drawing -= 1
        if self.status or lost or failed:
            return self.status or (0 if lost else 500), {"error": f"no, {self.key}"}
        logprob, ids = self.logprob, self.expand(body)
        answer = self.draw(body, logprob)
        choice = {
            "token_ids": answer,
            "logprobs": {"content": [{"token_id": token, "logprob": logprob} for token in answer]},
            "finish_reason": "stop",
            "weight_versions": [{"version": self.version, "start": 0, "end": 1}],
        }
        scores = [{str(token): {"logprob": logprob}} for token in ids]
        return 200, {
            "choices": [choice],
            "prompt_token_ids": ids,
            "prompt_logprobs": [None, *scores[1:]],
        }

    def die(self) -> None:
        """What is under way gets no answer, and nobody listens any more."""
        self.silent = {"/inference/v1/generate", "/health"}
        self.ended.set()
        self.http.shutdown()
        self.http.server_close()

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        server = self

        class Handler(BaseHTTPRequestHandler):
            def _handle(self) -> None:
                length = int(self.headers.get("Content-Length") or 0)
                body = json.loads(self.rfile.read(length) or b"null")
                if server.key and self.headers.get("Authorization") != f"Bearer {server.key}":
                    status, content = 401, {"error": "Unauthorized"}
                else:
                    status, content = server.answer(self.path, body)
                if not status:
                    self.close_connection = True
                    return
                data = b"" if content is None else json.dumps(content).encode()
                with suppress(ConnectionError):  # a call that was given up
                    self.send_response(status)
                    self.send_header("Content-Length", str(len(data)))
                    self.end_headers()
                    self.wfile.write(data)

            do_GET = do_POST = _handle

            def log_message(self, format: str, *args: Any) -> None:
                return None

        return Handler

    @contextmanager
    def running(self) -> Iterator[FakeServer]:
        thread = threading.Thread(target=self.http.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        thread.start()
        try:
            yield self
        finally:
            self.ended.set()
            self.http.shutdown()
            self.http.server_close()


def fleet_of(*servers: FakeServer, key: str | None = None) -> Fleet:
    """Given servers, as process 3 of a run would use them."""
    return Fleet([Member(url=one.url, key=key, process=None) for one in servers], name="rank 3")


def settings(**changes: Any) -> VllmServerConfig:
    """Short time-outs; a pause is a millisecond."""
    values: dict[str, Any] = {"timeout_s": 20.0, "startup_timeout_s": 20.0, "backoff_s": 0.001}
    return VllmServerConfig(**values | changes)


STUB = """
import os, sys
sys.path[:0] = {path!r}
from tests.fake_vllm_server import FakeServer
if "--crash" in sys.argv:
    print("key is " + os.environ.get("VLLM_API_KEY", "none"))
    raise SystemExit("no such model")
server = FakeServer()
server.http.server_close()
import http.server
port = int(sys.argv[sys.argv.index("--port") + 1])
server.http = http.server.ThreadingHTTPServer(("127.0.0.1", port), server._handler())
print("serving", flush=True)
server.http.serve_forever()
"""


def write_stub(folder: Path, path: list[str]) -> None:
    """A package `vllm` whose server is a FakeServer in a process of its own."""
    package = folder / "vllm" / "entrypoints" / "openai"
    package.mkdir(parents=True)
    for parent in (package, package.parent, package.parent.parent):
        (parent / "__init__.py").write_text("")
    (package / "api_server.py").write_text(STUB.format(path=path))
