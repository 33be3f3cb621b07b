"""The engines against each other: start, tokens a second, weight push, and the stages of a training step.

Run it in the environment that has vLLM (`make setup-vllm`). Every engine draws completions of equal prompts,
in a fresh process; figures are medians over rounds after one that warms up, processes of the engines in turn.
The stages are those of a few steps of the default run with that engine (`time/...` of its metrics.jsonl).
CPU seconds would hide a server's work, so these are wall-clock seconds: keep the machine quiet.

    .venv-vllm/bin/python benchmarks/engines.py [--engines hf vllm vllm_server] [--rounds 7] [--write]
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

RESULT = Path(__file__).parent / "results" / "engines.json"
TOKENS = 64
PROMPTS = 16
GROUP = 8
ROOT = Path(__file__).parents[1]
SHORT_RUN = (
    "algorithm.num_steps=9", "eval.samples=4", "eval.every=0", "eval.every_samples=4", "eval.resamples=100",
)  # fmt: skip
WARM = 2
STAGES = ("data", "rollout", "reward", "advantage", "learn", "sync", "log")


def measure(name: str, rounds: int) -> dict[str, float]:
    """Seconds of one engine, in this process."""
    import torch

    from groundrl.config.compose import compose_run
    from groundrl.data.base import Split
    from groundrl.models.load import load_policy
    from groundrl.rollout.collect import Collector

    torch.set_num_threads(1)
    config = compose_run([f"rollout/engine={name}", f"rollout.max_new_tokens={TOKENS}"])
    policy = load_policy(config.model)
    source = config.dataset.build(Split.TRAIN)
    begin = time.perf_counter()
    engine = config.rollout.engine.build(policy.model, policy.processor)
    start = time.perf_counter() - begin
    collector = Collector(
        engine, policy.processor, config.prompt.build(), config.rollout.build_kind(policy.processor)
    )
    drawing: list[float] = []
    tokens: list[int] = []
    pushing: list[float] = []
    try:
        for number in range(rounds + 1):
            samples = [source.sample(number * PROMPTS + index) for index in range(PROMPTS)]
            contexts = collector.contexts(samples)
            begin = time.perf_counter()
            made = collector.collect(
                samples, GROUP, config.rollout.sampling(), seed=(0, number), contexts=contexts
            )
            drawing.append(time.perf_counter() - begin)
            tokens.append(sum(rollout.num_student_tokens for rollout in made))
            begin = time.perf_counter()
            engine.sync_weights(policy.model)
            pushing.append(time.perf_counter() - begin)
    finally:
        engine.close()
    draw = statistics.median(drawing[1:])
    return {
        "start_s": start,
        "draw_s": draw,
        "tokens_per_s": sum(tokens[1:]) / sum(drawing[1:]),
        "push_s": statistics.median(pushing[1:]),
    }


def stages(name: str) -> dict[str, float]:
    """Median seconds of each stage of a step, and of the whole step, of a short run with the engine."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch) / "run"
        words = [f"rollout/engine={name}", f"rollout.max_new_tokens={TOKENS}", *SHORT_RUN]
        command = [sys.executable, str(ROOT / "train.py"), *words, f"paths.output_dir={folder}"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise SystemExit(done.stderr[-3000:])
        records = [json.loads(line) for line in (folder / "metrics.jsonl").read_text("utf-8").splitlines()]
    steps = [one["metrics"] for one in records if one["kind"] == "train"][WARM:]
    return {part: statistics.median(step[f"time/{part}"] for step in steps) for part in (*STAGES, "step")}


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--engines", nargs="*", default=["hf", "vllm", "vllm_server"])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--passes", type=int, default=3, help="processes of each engine, in turn")
    parser.add_argument("--write", action="store_true", help=f"write {RESULT.name}")
    parser.add_argument("--measure", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        print(json.dumps(measure(options.measure, options.rounds)))
        return 0
    found: dict[str, list[dict[str, float]]] = {name: [] for name in options.engines}
    runs_of: dict[str, list[dict[str, float]]] = {name: [] for name in options.engines}
    for _ in range(options.passes):
        for name in options.engines:
            command = [sys.executable, __file__, "--measure", name, "--rounds", str(options.rounds)]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode:
                raise SystemExit(done.stderr[-3000:])
            found[name].append(json.loads(done.stdout.strip().splitlines()[-1]))
            runs_of[name].append(stages(name))
    table: dict[str, Any] = {
        name: {key: round(statistics.median(run[key] for run in runs), 4) for key in runs[0]}
        for name, runs in found.items()
    }
    for name, row in table.items():
        medians = {part: statistics.median(run[part] for run in runs_of[name]) for part in runs_of[name][0]}
        step = medians.pop("step")
        row["step_s"] = round(step, 4)
        row["share_of_step"] = {part: round(seconds / step, 3) for part, seconds in medians.items()}
        shares = ", ".join(f"{part} {100 * share:.0f} %" for part, share in row["share_of_step"].items())
        print(
            f"{name:12} start {row['start_s']:6.1f} s, {row['tokens_per_s']:7.0f} tokens/s, push "
            f"{1000 * row['push_s']:6.1f} ms; step {step:.2f} s: {shares}"
        )
    if options.write:
        result = {
            "engines": table,
            "completions": PROMPTS * GROUP,
            "most_tokens": TOKENS,
            "rounds": options.rounds,
            "passes": options.passes,
            "machine": f"{platform.machine()}, {os.cpu_count()} cores, one thread",
        }
        RESULT.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
