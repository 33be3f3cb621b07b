"""Kills a run with SIGKILL at random moments, resumes it, and compares with a run that was left alone.

    make kill-test                                            20 kills of a small run
    python scripts/kill_test.py --kills 3 debug=smoke         fewer, other settings

Every other kill waits until a checkpoint is being written; every third run is killed again while it resumes.
Two runs are equal when every training and evaluation metric (times and memory apart), the final weights and
the optimiser state are equal to the bit.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
SMALL = (
    "scale.eval_samples=32", "scale.eval_every=4", "scale.eval_every_samples=16", "scale.eval_sampled_k=1",
    "scale.checkpoint_every=3", "scale.rec.num_steps=16", "scale.rec.prompts_per_step=2",
    "scale.rec.group_size=4",
)  # fmt: skip
TIMED = ("time/", "perf/")


def start(words: list[str]) -> subprocess.Popen[bytes]:
    command = [sys.executable, str(ROOT / "train.py"), *words]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, cwd=ROOT)


def finish(words: list[str]) -> None:
    """Run to the end; an exit code other than 0 ends the test with the run's own words."""
    process = start(words)
    _, errors = process.communicate()
    if process.returncode != 0:
        raise SystemExit(f"run {words} ended with {process.returncode}: {errors.decode()[-2000:]}")


def outcome(folder: Path) -> dict[str, Any]:
    """Everything that must be equal: metrics by step, weights and optimiser state by hash, final results."""
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    for line in lines:
        line["metrics"] = {k: v for k, v in line["metrics"].items() if not k.startswith(TIMED)}
    last = sorted((folder / "checkpoints").iterdir())[-1]
    files = ("model/model.safetensors", "optimizer.safetensors", "rng.safetensors")
    hashes = {name: hashlib.sha256((last / name).read_bytes()).hexdigest() for name in files}
    best = hashlib.sha256((folder / "best/model.safetensors").read_bytes()).hexdigest()
    result = json.loads((folder / "result.json").read_text())
    rollouts = (folder / "rollouts.jsonl").read_text()
    return {
        "metrics": lines,
        "weights": hashes,
        "best": best,
        "eval": result["eval"],
        "rollouts": rollouts,
        "gallery": (folder / "gallery.jsonl").read_text(),
    }


def kill(words: list[str], folder: Path, delay: float, *, while_writing: bool) -> str | None:
    """Start or resume the run and kill it; says when. None: the run ended first."""
    process = start(words)
    deadline = time.monotonic() + delay
    while process.poll() is None:
        writing = any((folder / "checkpoints").glob(".writing-*"))
        if time.monotonic() >= deadline and (writing or not while_writing):
            process.send_signal(signal.SIGKILL)
            process.wait()
            return "in a checkpoint" if writing else f"after {delay:.1f} s"
        time.sleep(0.0005 if while_writing else 0.01)
    return None


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("words", nargs="*", help="settings of the run (default: a small one)")
    options = parser.parse_args()
    words: list[str] = options.words or list(SMALL)
    rng = random.Random(options.seed)
    base = Path(tempfile.mkdtemp(prefix="kill-test-"))
    began = time.monotonic()
    finish([*words, f"paths.output_dir={base / 'alone'}"])
    duration = time.monotonic() - began
    expected = outcome(base / "alone")
    print(f"uninterrupted run: {duration:.1f} s, {len(expected['metrics'])} lines of metrics", flush=True)
    failures = landed = tries = 0
    while landed < options.kills and tries < 3 * options.kills:
        tries += 1
        folder = base / f"killed-{tries}"
        first = [*words, f"paths.output_dir={folder}"]
        again = [f"resume={folder}"]
        when = kill(first, folder, rng.uniform(0.2, 0.9) * duration, while_writing=landed % 2 == 1)
        if when is None:
            duration *= 0.8  # the machine is faster now than it was for the run that was left alone
            shutil.rmtree(folder)
            continue
        landed += 1
        if landed % 3 == 0 and (folder / "config.yaml").exists():
            second = kill(again, folder, rng.uniform(0.3, 0.7) * duration, while_writing=False)
            when += f", resumed and killed {second}" if second else ""
        if (folder / "config.yaml").exists():
            finish(again)
        else:
            when += " (before there was a run folder; started again)"
            finish(first)
        got = outcome(folder)
        different = [key for key in expected if got[key] != expected[key]]
        failures += bool(different)
        verdict = f"DIFFERENT in {different}" if different else "equal"
        print(f"kill {landed}: killed {when}: {verdict}", flush=True)
        if not different:
            shutil.rmtree(folder)
    print(f"{landed} of {options.kills} kills, {failures} differ")
    if not failures:
        shutil.rmtree(base)
    return 1 if failures or landed < options.kills else 0


if __name__ == "__main__":
    sys.exit(main())
