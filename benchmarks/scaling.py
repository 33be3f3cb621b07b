"""One and two processes on the same machine: the same numbers, and what the second one brings.

Both run the same GRPO steps through the command line, in turn; the figure is the median of the pairs' ratios
of wall-clock seconds a step (one process over two), the first two steps of each run left out. Two would be
perfect; each process has one thread.

    python benchmarks/scaling.py [--pairs 7] [--words reward=odlength ...] [--write]
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
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
RESULT = HERE / "results" / "scaling.json"
WARM = 2
SHOWN = ("reward/total", "learner/grad_norm")


def steps(processes: int, words: list[str], folder: Path) -> list[dict[str, Any]]:
    """The metrics of each training step of one run."""
    launcher = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(processes)]
    command = [sys.executable, *(launcher if processes > 1 else []), str(HERE.parent / "train.py"), *words]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [*command, f"paths.output_dir={folder}"], capture_output=True, text=True, env=environment, check=False
    )
    if done.returncode:
        raise SystemExit(done.stderr[-3000:])
    records = [json.loads(line) for line in (folder / "metrics.jsonl").read_text("utf-8").splitlines()]
    return [one["metrics"] for one in records if one["kind"] == "train"]


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--pairs", type=int, default=7)
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--words", nargs="*", default=["reward=odlength"])
    parser.add_argument("--write", action="store_true", help=f"write {RESULT.name}")
    options = parser.parse_args()
    words = [
        *options.words,
        f"algorithm.num_steps={options.steps}",
        "eval.samples=4",
        "eval.every=0",
        "eval.every_samples=4",
        "eval.resamples=100",
        "checkpoint.every=1000",
    ]
    pairs: list[tuple[float, float]] = []
    gap = 0.0
    for number in range(options.pairs):
        with tempfile.TemporaryDirectory() as folder:
            one = steps(1, words, Path(folder) / "one")
            two = steps(2, words, Path(folder) / "two")
        for first, second in zip(one, two, strict=True):
            gap = max(gap, *(abs(first[name] - second[name]) for name in SHOWN))
        times = [statistics.median(step["time/step"] for step in run[WARM:]) for run in (one, two)]
        pairs.append((times[0], times[1]))
        print(f"pair {number + 1}: {times[0]:.3f} s alone, {times[1]:.3f} s by two", flush=True)
    ratios = sorted(alone / both for alone, both in pairs)
    result = {
        "words": options.words,
        "steps": options.steps,
        "alone_s": round(statistics.median(one for one, _ in pairs), 4),
        "two_s": round(statistics.median(two for _, two in pairs), 4),
        "speedup": round(statistics.median(ratios), 2),
        "low_high": [round(ratios[0], 2), round(ratios[-1], 2)],
        "efficiency": round(statistics.median(ratios) / 2, 2),
        "largest_gap": {"of": list(SHOWN), "value": gap},
        "pairs": len(pairs),
        "machine": f"{platform.machine()}, {os.cpu_count()} cores, one thread a process",
    }
    print(json.dumps(result, indent=1))
    if options.write:
        RESULT.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
