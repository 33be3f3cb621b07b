"""Stands in for train.py: the same words, folders, exit codes and signals, and no training.

root/fake.json: {"configs": {words: resolved settings}, "steps": N, "step_s": seconds, "fail": [word, ...]}.
Each start adds a line to root/starts.txt: `begin WORDS` or `resume WORDS at STEP`.
"""

import fcntl
import json
import os
import signal
import sys
import time
from pathlib import Path

import yaml

ROOT = Path(__file__).parent
FAKE = json.loads((ROOT / "fake.json").read_text())
received = []


def note(text: str) -> None:
    with (ROOT / "starts.txt").open("a") as file:
        file.write(text + "\n")


def main(words: list[str]) -> int:
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda number, frame: received.append(number))
    given = dict(word.split("=", 1) for word in words)
    resumed = "resume" in given
    folder = Path(given.get("resume") or given["paths.output_dir"])
    if not resumed:
        own = [word for word in words if not word.startswith("paths.output_dir=")]
        if (folder / "config.yaml").exists():
            print("error: already holds a run", file=sys.stderr)
            return 2
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "overrides.yaml").write_text(yaml.safe_dump(own))
        (folder / "config.yaml").write_text(yaml.safe_dump(FAKE["configs"][" ".join(own)]))
    own = yaml.safe_load((folder / "overrides.yaml").read_text())
    lock = (folder / "run.lock").open("a+")
    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    lock.seek(0)
    lock.truncate()
    lock.write(str(os.getpid()))
    lock.flush()
    metrics = folder / "metrics.jsonl"
    done = len(metrics.read_text().splitlines()) if metrics.exists() else 0
    note(f"resume {' '.join(own)} at {done}" if resumed else f"begin {' '.join(own)}")
    if any(word in own for word in FAKE["fail"]):
        print("some output\n\nerror: the disk is full", file=sys.stderr)
        return 1
    for step in range(done + 1, FAKE["steps"] + 1):
        end = time.monotonic() + FAKE["step_s"]
        while time.monotonic() < end and not received:
            time.sleep(0.005)
        with metrics.open("a") as file:
            line = {"step": step, "kind": "train", "metrics": {"reward/total": step / 8, "time/step": 1.0}}
            file.write(json.dumps(line) + "\n")
        if received:
            while FAKE.get("stubborn"):
                time.sleep(0.01)
            return 128 + received[0]
    value = {"value": 0.25, "low": 0.125, "high": 0.5}
    result = {
        "status": "finished",
        "steps": FAKE["steps"],
        "train_seconds": 1.5,
        "eval": {"before": {"greedy/ap": value}, "after": {"greedy/ap": {**value, "value": 0.375}}},
        "run": {"commit": FAKE.get("commit", "c0ffee"), "finished_at": "2026-12-01T00:00:00+0000"},
    }
    temporary = folder / ".result.json.tmp"
    temporary.write_text(json.dumps(result))
    temporary.replace(folder / "result.json")
    return 0


sys.exit(main(sys.argv[1:]))
