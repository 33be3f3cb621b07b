"""A fleet that one thread draws with: what another can do meanwhile."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import torch
from tests.fake_vllm_server import FakeServer, fleet_of, settings
from tests.unit.rollout.test_vllm_server import PUSHED, asks, drawn

from groundrl.errors import EngineError
from groundrl.rollout.engines import vllm_server_engine
from groundrl.rollout.engines.base import Concurrent
from groundrl.rollout.engines.hf_engine import HFEngine
from groundrl.rollout.engines.vllm_server_fleet import Fleet
from groundrl.rollout.engines.vllm_server_member import Pushed


@pytest.fixture
def server() -> Iterator[FakeServer]:
    with FakeServer().running() as one:
        yield one


def given_up(fleet: Fleet, reached: Callable[[], bool], **changes: float) -> str:
    """What a call says that is given up once `reached`."""
    abandoned = threading.Event()
    with ThreadPoolExecutor(1) as pool:
        call = pool.submit(fleet.ask, asks(4), PUSHED, settings(**changes), "generate", abandoned)
        while not reached():
            threading.Event().wait(0.01)
        abandoned.set()
        fleet.cancel()
        return str(call.exception(timeout=15))


def test_a_call_is_given_up_in_the_middle_of_a_request(server) -> None:
    fleet = fleet_of(server)
    server.before = lambda: server.ended.wait() and None if len(server.asked) > 1 else None
    told = given_up(fleet, lambda: len(server.asked) == 2, concurrency=1, timeout_s=600.0)
    assert told == "vllm_server, rank 3: generate was given up with 1 of 4 requests done"


def test_a_call_is_given_up_between_two_attempts(server) -> None:
    server.fail = 10**6
    told = given_up(fleet_of(server), lambda: len(server.asked) > 0, concurrency=1, backoff_s=600.0)
    assert "generate was given up with 0 of 4" in told


def test_a_call_is_given_up_while_it_waits_for_a_server() -> None:
    """Nobody listens there; it would be waited for for ten minutes."""
    dead = FakeServer()
    dead.http.server_close()
    fleet = fleet_of(dead)
    told = given_up(fleet, fleet._lock.locked, startup_timeout_s=600.0)
    assert "generate was given up" in told


def test_a_push_waits_for_the_draw_that_is_under_way(server) -> None:
    """The draw is let go on only once the push has had every chance to overtake it."""
    fleet, begun, go_on = fleet_of(server), threading.Event(), threading.Event()

    def answer() -> None:
        begun.set()
        assert go_on.wait(15)

    server.before = answer
    with ThreadPoolExecutor(2) as pool:
        draw = pool.submit(fleet.ask, asks(3), PUSHED, settings(concurrency=1), "generate")
        assert begun.wait(15)
        later = Pushed(version="w-2", folder=Path("later"))
        push = pool.submit(fleet.ask, [], later, settings(), "sync_weights")
        assert not push.done()
        go_on.set()
        assert drawn(draw.result(15)) == [0, 0, 0]
        push.result(15)
    assert (server.given, server.overtaken) == (["weights", "later"], 0)


def test_which_engines_draw_beside_the_learner(server, tiny_policy, monkeypatch) -> None:
    """One whose servers give their memory to the learner cannot; nor can one that lives in this process."""
    monkeypatch.setattr(vllm_server_engine, "write_folder", lambda folder, model, processor: folder.mkdir())
    for sleep in (False, True):
        engine = settings(urls=[server.url], sleep=sleep).build(torch.nn.Linear(2, 1), tiny_policy.processor)
        assert isinstance(engine, Concurrent)
        assert engine.concurrent is not sleep
        engine.abandon()
        with pytest.raises(EngineError, match="sync_weights was given up"):
            engine.sync_weights(torch.nn.Linear(2, 1))
        engine.close()
    assert not isinstance(HFEngine(tiny_policy.model, tiny_policy.processor, max_batch=1), Concurrent)
