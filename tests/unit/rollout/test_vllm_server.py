"""Servers over HTTP, without vLLM: how requests are spread and repeated, and what a lost server leaves."""

from __future__ import annotations

import base64
import io
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from tests.fake_vllm_server import FakeServer, fleet_of, settings
from tests.tiny import ask, picture

from groundrl.config.compose import compose_run
from groundrl.errors import ConfigError, EngineError
from groundrl.rollout.engines import vllm_server_engine, vllm_server_fleet
from groundrl.rollout.engines.base import Given, Request, Sampling
from groundrl.rollout.engines.vllm_server import VllmServerConfig
from groundrl.rollout.engines.vllm_server_fleet import Ask
from groundrl.rollout.engines.vllm_server_link import Link, SlowError
from groundrl.rollout.engines.vllm_server_member import Pushed
from groundrl.rollout.engines.vllm_server_wire import drawing, prompt_body

PUSHED = Pushed(version="w-1", folder=Path("weights"))


@pytest.fixture
def servers() -> Iterator[list[FakeServer]]:
    with ExitStack() as stack:
        yield [stack.enter_context(FakeServer().running()) for _ in range(2)]


def asks(groups: int, each: int = 1) -> list[Ask]:
    """Group g's k-th prompt is [g, k]; its answer is k."""
    return [Ask(group=g, body={"token_ids": [g, k]}) for g in range(groups) for k in range(each)]


def drawn(answers: list[Any]) -> list[int]:
    return [answer["choices"][0]["token_ids"][0] for answer in answers]


def test_groups_are_spread_and_as_many_are_in_flight_as_may_be(servers) -> None:
    """No server answers before six requests stand, which `concurrency` spreads three and three: with fewer
    they would wait for ever, and none is free to take from the other."""
    six = threading.Barrier(6, timeout=60)
    for server in servers:
        server.before = six.wait
    answers = fleet_of(*servers).ask(asks(2, 3), PUSHED, settings(concurrency=3), "generate")
    assert drawn(answers) == [0, 1, 2, 0, 1, 2]
    assert [sorted(server.asked) for server in servers] == [
        [[0, 0], [0, 1], [0, 2]],
        [[1, 0], [1, 1], [1, 2]],
    ]


def test_no_more_are_in_flight_than_may_be(servers) -> None:
    flying, peaks, both = [0], [0], threading.Barrier(2, timeout=20)

    def enter() -> None:
        with servers[0].lock:
            flying[0] += 1
            peaks[0] = max(peaks[0], flying[0])
        both.wait()
        with servers[0].lock:
            flying[0] -= 1

    servers[0].before = enter
    fleet_of(servers[0]).ask(asks(4, 2), PUSHED, settings(concurrency=2), "generate")
    assert peaks == [2]


def test_a_server_without_work_takes_from_a_slow_one(servers) -> None:
    """The first server answers nothing until the second was asked; that answers once the first has answered
    all seven others."""
    quick, slow = servers
    slow_asked, quick_done, left = threading.Event(), threading.Event(), [7]

    def count() -> None:
        slow_asked.wait(20)
        left[0] -= 1
        if not left[0]:
            quick_done.set()

    def wait() -> None:
        slow_asked.set()
        quick_done.wait(20)

    quick.before, slow.before = count, wait
    answers = fleet_of(quick, slow).ask(asks(2, 4), PUSHED, settings(concurrency=1), "generate")
    assert drawn(answers) == [0, 1, 2, 3, 0, 1, 2, 3]
    assert (len(quick.asked), len(slow.asked)) == (7, 1)


@pytest.mark.parametrize("trouble", ["lose", "fail"])
def test_a_lost_request_is_asked_again_after_pauses_that_double(servers, trouble, monkeypatch) -> None:
    pauses: list[float] = []
    monkeypatch.setattr(vllm_server_fleet, "_pause", lambda seconds, abandoned: pauses.append(seconds))
    setattr(servers[0], trouble, 3)
    answers = fleet_of(servers[0]).ask(
        asks(2), PUSHED, settings(concurrency=1, backoff_s=1.0, retries=3), "generate"
    )
    assert drawn(answers) == [0, 0]
    assert pauses == [1.0, 2.0, 4.0]
    assert servers[0].asked == [[0, 0]] * 4 + [[1, 0]]
    assert len(servers[0].given) == 1


def test_the_other_server_takes_over_and_answers_are_kept(servers) -> None:
    """The first server loses everything; what the second answered is not asked twice."""
    servers[0].lose = 10**6
    answers = fleet_of(*servers).ask(asks(6), PUSHED, settings(retries=1, concurrency=4), "generate")
    assert drawn(answers) == [0] * 6
    assert sorted(servers[1].asked) == [[g, 0] for g in range(6)]


def test_giving_up_names_process_stage_and_what_was_done(servers) -> None:
    servers[0].fail = 10**6
    servers[0].version = PUSHED.version
    with pytest.raises(
        EngineError,
        match=r"vllm_server, rank 3: score failed 3 times with 0 of 2 requests done; last: http.*status 500",
    ):
        fleet_of(servers[0]).ask(asks(2), PUSHED, settings(retries=2), "score")
    assert servers[0].given == []


def test_a_restarted_server_gets_the_weights_before_it_is_asked_again(servers) -> None:
    """It is started again just before the third request, whose answer is therefore not taken."""
    server = servers[0]
    server.forget = 3
    answers = fleet_of(server).ask(asks(5), PUSHED, settings(concurrency=1), "generate")
    assert {answer["choices"][0]["weight_versions"][0]["version"] for answer in answers} == {"w-1"}
    # log-probs say how often weights had been given: the first two once, the others twice
    logprobs = [a["choices"][0]["logprobs"]["content"][0]["logprob"] for a in answers]
    assert logprobs == [-1.0, -1.0, -2.0, -2.0, -2.0]
    assert server.given == ["weights", "weights"]
    pushes = [path for path in server.calls if path not in ("/health", "/inference/v1/generate")]
    assert (
        pushes
        == [
            "/weight_info",
            "/collective_rpc",
            "/reset_mm_cache",
            "/reset_encoder_cache",
            "/reset_prefix_cache",
            "/update_weight_version",
        ]
        * 2
    )


def test_weights_that_are_there_are_not_pushed_again_and_a_busy_cache_is_waited_for(servers) -> None:
    server = servers[0]
    server.busy = 2  # two requests of a call that was given up
    fleet = fleet_of(server)
    for _ in range(2):
        fleet.ask(asks(1), PUSHED, settings(), "generate")
    assert len(server.given) == 1
    assert server.calls.count("/reset_prefix_cache") == 3


def test_a_server_that_falls_silent_is_a_named_error_within_the_time_out(servers) -> None:
    server = servers[0]
    fleet = fleet_of(server)
    fleet.ask(asks(1), PUSHED, settings(), "generate")
    server.before = lambda: server.ended.wait() and None if len(server.asked) > 2 else None
    with pytest.raises(
        EngineError,
        match=r"vllm_server, rank 3: generate took longer than 0\.5 s with 1 of 4 requests done .*timeout_s",
    ):
        fleet.ask(asks(4), PUSHED, settings(concurrency=1, timeout_s=0.5), "generate")


def test_a_server_that_never_answers_is_a_named_error_within_its_start_up_time(servers) -> None:
    servers[0].silent = {"/health"}
    with pytest.raises(EngineError, match=r"vllm_server, rank 3: not healthy after 0\.2 s: http://127"):
        fleet_of(*servers).start(settings(startup_timeout_s=0.2))
    servers[1].silent = {"/collective_rpc"}
    with pytest.raises(EngineError, match=r"rank 3: sync_weights took longer than 0\.3 s .*/collective_rpc"):
        fleet_of(servers[1]).ask([], PUSHED, settings(timeout_s=0.3), "sync_weights")


def test_a_refused_request_is_not_repeated_and_no_key_is_shown() -> None:
    with FakeServer(key="sesame").running() as server:
        with pytest.raises(EngineError, match=r"status 401: .*rollout\.engine\.api_key_env"):
            fleet_of(server).ask(asks(1), PUSHED, settings(), "generate")
        server.status = 400
        with pytest.raises(EngineError, match=r"status 400: .*no, \*\*\*") as caught:
            fleet_of(server, key="sesame").ask(asks(1), PUSHED, settings(), "generate")
        assert "sesame" not in str(caught.value)
        assert len(server.asked) == 1
        server.status = 404
        with pytest.raises(
            EngineError, match=r"has no /inference/v1/generate; start it with VLLM_SERVER_DEV"
        ):
            fleet_of(server, key="sesame").ask(asks(1), PUSHED, settings(), "generate")


@pytest.mark.parametrize(
    ("told", "message"),
    [
        ({"logprobs_mode": "raw_logprobs"}, "rollout.engine.urls: .*got 'raw_logprobs'"),
        ({"max_model_len": 4095}, "rollout.engine.max_model_len: .* takes 4095 tokens, got 4096"),
    ],
)
def test_a_given_server_that_answers_otherwise_is_refused(servers, told, message) -> None:
    fleet_of(servers[1]).start(settings())
    servers[0].told |= told
    with pytest.raises(ConfigError, match=message):
        fleet_of(*servers).start(settings())


def test_the_engine_pushes_scores_and_draws(servers, tiny_policy, monkeypatch) -> None:
    """Two engines on one server hold it by turns: each finds the other's weights and pushes its own."""
    monkeypatch.setattr(vllm_server_engine, "write_folder", lambda folder, model, processor: folder.mkdir())
    config = settings(urls=[servers[0].url + "/"], max_model_len=64)
    model, processor = torch.nn.Linear(2, 1), tiny_policy.processor
    first: Any = config.build(model, processor)
    context = ask(processor, "red circle")
    request = Request(prompt_ids=context.ids, images=(), seeds=(1, 2**64 - 1))
    greedy = Sampling(temperature=0.0, max_new_tokens=8)
    (made,) = first.generate([request], greedy)
    assert [one.ids.tolist() for one in made] == [[int(context.ids[-1])]] * 2
    assert [one.logprobs.tolist() for one in made] == [[-1.0], [-1.0]]
    second: Any = config.build(model, processor)
    given = Given(prompt_ids=context.ids, images=(), completion_ids=np.array([7, 8, 9]))
    assert [one.tolist() for one in second.score([given])] == [[-2.0, -2.0, -2.0]]
    assert [one.tolist() for one in first.score([given])] == [[-3.0, -3.0, -3.0]]
    folder = first.pushed.folder
    assert (folder / "model.safetensors").is_file()
    first.sync_weights(model)
    assert not folder.exists()
    with pytest.raises(ConfigError, match=r"rollout\.engine\.max_model_len: a prompt of .*got 64"):
        first.generate([request], Sampling(temperature=1.0, max_new_tokens=65 - len(context.ids)))
    many = ask(processor, "", ((56, 56),) * 5)
    monkeypatch.setattr(first, "config", settings(urls=config.urls))
    with pytest.raises(ConfigError, match=r"rollout\.engine\.max_images: a prompt has 5 images, got 4"):
        first.generate([Request(prompt_ids=many.ids, images=many.images, seeds=(1,))], greedy)
    with pytest.raises(ConfigError, match="untruncated"):
        first.generate([request], Sampling(temperature=1.0, max_new_tokens=1, top_k=2))
    for engine in (first, second, second):
        engine.close()
    assert not first.pushed.folder.exists()


def test_a_released_server_sleeps_once_and_wakes_for_the_next_call(servers, tiny_policy, monkeypatch) -> None:
    monkeypatch.setattr(vllm_server_engine, "write_folder", lambda folder, model, processor: folder.mkdir())
    config = settings(urls=[servers[0].url], sleep=True)
    engine: Any = config.build(torch.nn.Linear(2, 1), tiny_policy.processor)
    engine.release()
    engine.release()
    engine.sync_weights(torch.nn.Linear(2, 1))
    calls = servers[0].calls
    assert calls.count("/sleep?level=1") == calls.count("/wake_up") == 1
    assert calls.index("/sleep?level=1") < calls.index("/wake_up")
    engine.reset_caches()
    assert calls[-3:] == ["/reset_mm_cache", "/reset_encoder_cache", "/reset_prefix_cache"]
    engine.close()


def test_what_is_said_of_a_prompt_and_of_a_draw(tiny_policy) -> None:
    """Pictures are the resized ones, pixel for pixel; seeds fit 63 bits; no infinity, which JSON lacks."""
    processor = tiny_policy.processor
    context = ask(processor, "red circle", ((112, 112), (56, 84)))
    body = prompt_body(context.ids, context.images, processor)
    assert body["token_ids"].count(processor.image_id) == 2
    for n, (part, size) in enumerate(zip(body["content_parts"], ((112, 112), (56, 84)), strict=True)):
        head, _, data = part["url"].partition(",")
        assert (part["type"], head) == ("image_url", "data:image/png;base64")
        shown = np.asarray(Image.open(io.BytesIO(base64.b64decode(data))))
        assert np.array_equal(shown, np.asarray(picture(size, n)))
    assert "content_parts" not in prompt_body(ask(processor, "red").ids, (), processor)
    said = drawing(Sampling(temperature=0.5, max_new_tokens=9), 2**64 - 1, processor)
    assert said["seed"] == 2**63 - 1
    assert (said["temperature"], said["max_tokens"], said["logprobs"]) == (0.5, 9, 0)
    assert set(said["logit_bias"]) == {str(token) for token in processor.banned_ids}
    assert set(said["logit_bias"].values()) == {-1e30}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"servers": 0}, "servers: must be at least 1, got 0"),
        ({"concurrency": 0}, "concurrency: must be at least 1"),
        ({"retries": -1}, "retries: must be >= 0, got -1"),
        ({"startup_timeout_s": 0.0}, "startup_timeout_s: must be above 0"),
        ({"backoff_s": -1.0}, "backoff_s: must be >= 0"),
        ({"timeout_s": 0.0}, "timeout_s: must be above 0"),
        ({"urls": ["localhost:8000"]}, "urls: not an address of a server, got 'localhost:8000'"),
        ({"urls": ["http://localhost:8000/v1"]}, "urls: not an address of a server"),
        ({"urls": ["http://me:secret@host:8000"]}, "urls: an address holds a name or password; use api_key"),
    ],
)
def test_settings_that_cannot_be_meant(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message) as caught:
        VllmServerConfig(**changes)
    assert "secret" not in str(caught.value)


def test_each_process_has_servers_of_its_own() -> None:
    """Of five addresses and two processes, process 1 has the second and the fourth."""
    config = VllmServerConfig(urls=[f"http://h:{n}" for n in range(5)])
    assert config.share(1, 2) == ["http://h:1", "http://h:3"]
    with pytest.raises(ConfigError, match="urls: 6 processes need a server each, got 5"):
        config.share(0, 6)
    started = VllmServerConfig(servers=2, devices=["4", "5", "6", "7"])
    assert started.devices_of(1, 2) == ["6", "7"]
    assert VllmServerConfig(servers=2).devices_of(1, 2) == [None, None]
    with pytest.raises(ConfigError, match="devices: must name the devices of each of 2 servers, got 4"):
        started.devices_of(0, 1)


def test_without_vllm_only_given_servers_can_be_used(monkeypatch) -> None:
    monkeypatch.setattr("groundrl.rollout.engines.vllm_server.installed", lambda: False)
    config = compose_run(["rollout/engine=vllm_server"]).rollout.engine
    with pytest.raises(ConfigError, match=r"so no server can be started; .*rollout\.engine\.urls"):
        config.build(None, None)
    with pytest.raises(ConfigError, match=r"rollout\.top_k: this engine gives log-probs of the truncated"):
        compose_run(["rollout/engine=vllm_server", "rollout.top_k=5"])
    with pytest.raises(ConfigError, match=r"rollout\.engine\.weights_folder: is no folder"):
        compose_run(
            [
                "rollout/engine=vllm_server",
                "rollout.engine.urls=[http://h:1]",
                "rollout.engine.weights_folder=/nowhere",
            ]
        ).rollout.engine.build(None, None)


def test_a_call_whose_time_is_up_before_it_connects_is_slow_not_broken(servers) -> None:
    link = Link(servers[0].url, None)
    with pytest.raises(SlowError, match="no answer in time"):
        link.call("GET", "/weight_info", deadline=time.monotonic() - 1.0)
    assert servers[0].calls == []
