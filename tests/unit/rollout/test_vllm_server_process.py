"""Servers as processes: started, killed and started again, ended with the run; a stub stands for vLLM."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.fake_vllm_server import settings, write_stub
from tests.tiny import ask

from groundrl.errors import EngineError
from groundrl.rollout.engines import vllm_server_engine, vllm_server_shared
from groundrl.rollout.engines.base import Request, Sampling
from groundrl.rollout.engines.vllm_server_link import Link
from groundrl.rollout.engines.vllm_server_process import ServerProcess, arguments

GREEDY = Sampling(temperature=0.0, max_new_tokens=8)


@pytest.fixture
def stub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A `vllm` that started processes find, and no weights to write."""
    write_stub(tmp_path / "stub", sys.path)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path / "stub"), *sys.path]))
    monkeypatch.setenv("VLLM_API_KEY", "sesame")
    monkeypatch.setattr("groundrl.rollout.engines.vllm_server.installed", lambda: True)

    def written(folder: Path, model: Any, processor: Any) -> None:
        folder.mkdir(parents=True)
        (folder / "config.json").write_text(str(model))

    monkeypatch.setattr(vllm_server_engine, "write_folder", written)
    monkeypatch.setattr(vllm_server_shared, "write_folder", written)
    monkeypatch.setattr(vllm_server_shared, "link_weights", lambda folder, model: None)
    return tmp_path


def process_of(folder: Path, *words: str, devices: str | None = None) -> ServerProcess:
    return ServerProcess(list(words), folder / "log", cuda=False, devices=devices, key="sesame")


def gone(pid: int) -> bool:
    """Whether the process ends within ten seconds (one that nobody waits for may stay as a zombie)."""
    for _ in range(500):
        state = Path(f"/proc/{pid}/stat")
        if not state.exists() or state.read_text().rpartition(")")[2].split()[0] == "Z":
            return True
        time.sleep(0.02)
    return False


def test_a_killed_server_is_started_again_with_the_present_weights(stub, tiny_policy) -> None:
    """The stub answers -1 after its first push; a new one has also had one, an old one would have had two."""
    config = settings()
    engine: Any = config.build(torch.nn.Linear(2, 1), tiny_policy.processor)
    context = ask(tiny_policy.processor, "red circle")
    request = Request(prompt_ids=context.ids, images=(), seeds=(1,))
    process = engine.fleet.members[0].process
    before = process.pid
    engine.sync_weights(torch.nn.Linear(2, 1))
    assert engine.generate([request], GREEDY)[0][0].logprobs.tolist() == [-2.0]
    os.kill(before, signal.SIGKILL)
    assert engine.generate([request], GREEDY)[0][0].logprobs.tolist() == [-1.0]
    assert process.pid != before
    # an engine that asks for the same servers gets them; they end with the last one
    other: Any = config.build(torch.nn.Linear(2, 1), tiny_policy.processor)
    different: Any = settings(max_model_len=99).build(torch.nn.Linear(2, 1), tiny_policy.processor)
    assert other.fleet is engine.fleet
    assert different.fleet is not engine.fleet
    pids = [process.pid, different.fleet.members[0].process.pid]
    different.close()
    engine.close()
    assert gone(pids[1])
    assert other.generate([request], GREEDY)[0][0].logprobs.tolist() == [-2.0]
    other.close()
    assert gone(pids[0])
    assert vllm_server_shared._RUNNING == []


def test_a_server_that_does_not_come_up_is_an_error_with_its_last_words(
    stub, tiny_policy, monkeypatch
) -> None:
    monkeypatch.setattr(vllm_server_shared, "engine_settings", lambda *any: {"crash": True})
    with pytest.raises(EngineError, match=r"ended with code 1 while it started; its last lines") as caught:
        settings().build(torch.nn.Linear(2, 1), tiny_policy.processor)
    assert str(caught.value).splitlines()[-2:] == ["key is ***", "no such model"]
    assert vllm_server_shared._RUNNING == []


def test_what_a_server_is_started_with(stub, monkeypatch) -> None:
    words = arguments({"max_model_len": 5, "enforce_eager": True, "sleep_mode": False, "limit": {"image": 1}})
    assert words == ["--max-model-len", "5", "--enforce-eager", "--no-sleep-mode", "--limit", '{"image": 1}']
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("VLLM_ENABLE_V1_MULTIPROCESSING", "0")  # what the engine in this process asks for
    given = process_of(stub, devices="6,7").environment()
    assert "RANK" not in given
    assert (given["VLLM_SERVER_DEV_MODE"], given["VLLM_ENABLE_V1_MULTIPROCESSING"]) == ("1", "1")
    assert (given["CUDA_VISIBLE_DEVICES"], given["VLLM_API_KEY"]) == ("6,7", "sesame")


def test_an_error_repeats_the_end_of_a_log_and_no_pictures(stub) -> None:
    """20 lines of 300 characters; the key is taken out."""
    process = process_of(stub)
    process.log.write_text("\n".join(f"{n} sesame " + "x" * 1000 for n in range(200)))
    lines = process.tail().splitlines()
    assert [line.split()[:2] for line in lines] == [[str(n), "***"] for n in range(180, 200)]
    assert max(map(len, lines)) == 300 - len("sesame") + len("***")


def test_a_server_outlives_the_thread_that_asked_for_it(stub) -> None:
    """The kernel ends it with the thread that forked it; one that draws may start a server anew and end."""
    process = process_of(stub)

    def start() -> None:
        process.start()
        while "serving" not in process.tail():
            time.sleep(0.02)

    thread = threading.Thread(target=start)
    thread.start()
    thread.join()
    link = Link(process.url, "sesame")
    for _ in range(3):
        link.call("GET", "/health", deadline=time.monotonic() + 10)
        time.sleep(0.05)
    assert process.exit_code is None
    process.close()


@pytest.mark.skipif(sys.platform != "linux", reason="asks the kernel")
def test_a_server_ends_with_a_run_that_was_killed(stub) -> None:
    program = (
        "import sys, time; from pathlib import Path\n"
        "from groundrl.rollout.engines.vllm_server_process import ServerProcess\n"
        f"process = ServerProcess([], Path({str(stub)!r}) / 'log', cuda=False, devices=None, key=None)\n"
        "process.start()\n"
        "while 'serving' not in process.tail(): time.sleep(0.02)\n"
        "print(process.pid, flush=True); time.sleep(60)\n"
    )
    run = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
    assert run.stdout is not None
    server = int(run.stdout.readline())
    assert not Path(f"/proc/{server}/stat").read_text().rpartition(")")[2].startswith(" Z")
    run.kill()
    run.wait()
    run.stdout.close()
    assert gone(server)
