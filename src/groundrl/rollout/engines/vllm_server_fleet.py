"""Requests spread over several servers, and what is done when one of them is lost."""

from __future__ import annotations

import contextlib
import threading
import time
from collections import deque
from collections.abc import Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from typing import Any

from groundrl.errors import EngineError
from groundrl.rollout.engines.vllm_server import VllmServerConfig
from groundrl.rollout.engines.vllm_server_link import LostError, SlowError
from groundrl.rollout.engines.vllm_server_member import Member, Pushed
from groundrl.rollout.engines.vllm_server_wire import Body, versions, whole

GENERATE = "/inference/v1/generate"
LONGEST_PAUSE_S = 30.0
POLL_S = 0.2


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """One request. Those of one group share a prompt and go to one server, which computes it once."""

    group: int
    body: Body


@dataclass(slots=True, kw_only=True)
class Call:
    """The requests of one call, and what is known of them."""

    asks: Sequence[Ask]
    deadline: float
    answers: dict[int, Any] = field(default_factory=dict[int, Any])
    trouble: list[str] = field(default_factory=list[str])
    lost: list[Member] = field(default_factory=list[Member])
    over: threading.Event = field(default_factory=threading.Event)
    abandoned: threading.Event = field(default_factory=threading.Event)

    @property
    def done(self) -> str:
        return f"{len(self.answers)} of {len(self.asks)} requests done"


class Fleet:
    """The servers of one process of the run. One call at a time: a second thread waits for the first, so that
    no weights are pushed between the requests of a call."""

    def __init__(self, members: Sequence[Member], *, name: str) -> None:
        """name: of the process in errors, e.g. `rank 0`."""
        self.members = list(members)
        self.name = name
        self._lock = threading.Lock()

    def start(self, config: VllmServerConfig) -> None:
        """Start what is to be started and wait until all are well; given servers are looked at."""
        for member in self.members:
            member.start()
        self._wait(config, everyone=True)
        for member in self.members:
            if member.process is None:
                member.check_settings(config.max_model_len)

    def ask(
        self,
        asks: Sequence[Ask],
        pushed: Pushed,
        config: VllmServerConfig,
        stage: str,
        abandoned: threading.Event | None = None,
    ) -> list[Any]:
        """The answers in order, all made with the pushed weights; no requests: the weights are pushed.

        Requests that a lost server left behind are asked again. Raises EngineError after timeout_s (in which
        a server's start does not count), when they were repeated too often, and once `abandoned` is set.
        """
        with self._lock:
            call = Call(asks=asks, deadline=time.monotonic() + config.timeout_s)
            call.abandoned = abandoned or call.abandoned
            return self._ask(call, pushed, config, stage)

    def _ask(self, call: Call, pushed: Pushed, config: VllmServerConfig, stage: str) -> list[Any]:
        asks = call.asks
        for attempt in range(config.retries + 1):
            if attempt:
                pause = min(config.backoff_s * 2 ** (attempt - 1), LONGEST_PAUSE_S)
                _pause(max(0.0, min(pause, call.deadline - time.monotonic())), call.abandoned)
            began = time.monotonic()
            well = self._wait(config, abandoned=call.abandoned)
            if call.abandoned.is_set():
                raise EngineError(f"vllm_server, {self.name}: {stage} was given up with {call.done}")
            call.deadline += time.monotonic() - began
            try:
                ready = _updated(well, pushed, call)
                # one that answers probes and loses requests sits out a round, where there are others
                ready = [member for member in ready if member not in call.lost] or ready
                call.lost.clear()
                if ready:
                    self._spread(ready, pushed, call, config.concurrency)
                    if len(call.answers) == len(asks):
                        return [call.answers[number] for number in range(len(asks))]
            except SlowError as error:
                raise EngineError(
                    f"vllm_server, {self.name}: {stage} took longer than {config.timeout_s:g} s with "
                    f"{call.done} ({error}); raise rollout.engine.timeout_s"
                ) from error
        raise EngineError(
            f"vllm_server, {self.name}: {stage} failed {config.retries + 1} times with {call.done}; last: "
            f"{call.trouble[-1]}; raise rollout.engine.retries if it is worth it\n"
            + "\n".join(member.trouble() for member in self.members)
        )

    def cancel(self) -> None:
        """Break the requests that are under way; the call sees to it whether it asks again."""
        for member in self.members:
            member.link.cancel()

    def _wait(
        self, config: VllmServerConfig, *, everyone: bool = False, abandoned: threading.Event | None = None
    ) -> list[Member]:
        """The servers that are well: at least one, or all, or none once `abandoned` is set. Those that ended
        are started again."""
        deadline = time.monotonic() + config.startup_timeout_s
        while True:
            if abandoned is not None and abandoned.is_set():
                return []
            for member in self.members:
                member.keep_running()
            well = [member for member in self.members if member.is_well(config.startup_timeout_s)]
            if len(well) == len(self.members) or (well and not everyone):
                return well
            if time.monotonic() > deadline:
                missing = [member.trouble() for member in self.members if member not in well]
                raise EngineError(
                    f"vllm_server, {self.name}: not healthy after {config.startup_timeout_s:g} s: "
                    + "\n".join(missing)
                )
            time.sleep(POLL_S)

    def _spread(self, ready: list[Member], pushed: Pushed, call: Call, concurrency: int) -> None:
        """Ask what is unanswered. Each server has its own groups; one without work takes from the others."""
        waiting: list[deque[int]] = [deque() for _ in ready]
        for number, ask in enumerate(call.asks):
            if number not in call.answers:
                waiting[ask.group % len(ready)].append(number)
        workers = min(sum(map(len, waiting)), concurrency * len(ready))
        if not workers:
            return
        call.over.clear()
        with ThreadPoolExecutor(workers) as pool:
            try:
                jobs = [
                    pool.submit(_work, ready[n % len(ready)], n % len(ready), waiting, pushed.version, call)
                    for n in range(workers)
                ]
                for job in wait(jobs, return_when=FIRST_EXCEPTION).done:
                    job.result()
            finally:
                call.over.set()
                for member in ready:
                    member.link.cancel()

    def reset_caches(self, config: VllmServerConfig) -> None:
        with self._lock:
            for member in self._wait(config):
                with contextlib.suppress(LostError):  # it will start with empty ones
                    member.reset_caches(time.monotonic() + config.timeout_s)

    def sleep(self, config: VllmServerConfig) -> None:
        with self._lock:
            for member in self._wait(config):
                with contextlib.suppress(LostError):
                    member.sleep(time.monotonic() + config.timeout_s)

    def close(self) -> None:
        for member in self.members:
            if member.process is not None:
                member.process.close()


def _updated(members: Sequence[Member], pushed: Pushed, call: Call) -> list[Member]:
    """Those of the servers that have the weights now."""
    ready: list[Member] = []
    for member in members:
        try:
            member.update(pushed, call.deadline)
            ready.append(member)
        except LostError as error:
            call.trouble.append(str(error))
    return ready


def _work(member: Member, own: int, waiting: list[deque[int]], version: str, call: Call) -> None:
    """Ask one server for one thing after the other, until nothing is left or it is lost."""
    while not (call.over.is_set() or call.abandoned.is_set()):
        number = _next(waiting, own)
        if number is None:
            return
        try:
            answer = member.link.call("POST", GENERATE, call.asks[number].body, deadline=call.deadline)
            if not whole(answer) or versions(answer) != {version}:
                raise LostError(f"{member.link.url}: was started again, or its weights were replaced")
        except LostError as error:
            call.trouble.append(str(error))
            call.lost.append(member)
            return
        call.answers[number] = answer


def _pause(seconds: float, abandoned: threading.Event) -> None:
    abandoned.wait(seconds)


def _next(waiting: list[deque[int]], own: int) -> int | None:
    for queue in (waiting[own], *sorted(waiting, key=len, reverse=True)):
        try:
            return queue.popleft()
        except IndexError:
            continue
    return None
