"""A million rows of `dataset=jsonl`: seconds until the first batch, rows per second, and peak memory.

Baseline: reading the file the plain way, `json.loads` of every line into a list, as loaders of peers do.
Each runs in a process of its own, so that peaks do not mix. Images at realistic sizes: benchmarks/images.py.

    python benchmarks/data.py [--rows 1000000] [--write]
"""

from __future__ import annotations

import argparse
import json
import platform
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

RESULT = Path(__file__).parent / "results" / "data.json"
BATCH = 128
PASSES = 3


def write_rows(file: Path, rows: int) -> None:
    """Rows of referring expressions over one small picture."""
    from PIL import Image

    Image.new("RGB", (64, 48), (9, 90, 200)).save(file.parent / "a.png")
    with file.open("w", encoding="utf-8") as stream:
        for number in range(rows):
            row = {
                "image": "a.png",
                "question": f"the thing number {number} on the left",
                "boxes": [[1, 2, 30, 40]],
            }
            stream.write(json.dumps(row) + "\n")


def ours(file: Path) -> dict[str, float]:
    """Open the data set and draw a batch in shuffled order; then go on drawing rows."""
    from groundrl.data.base import Split
    from groundrl.data.jsonl import Jsonl, JsonlConfig
    from groundrl.data.sampler import Sampler

    start = time.perf_counter()
    source = Jsonl(JsonlConfig(path=str(file)), Split.TRAIN)
    sampler = Sampler(source, 0)
    sampler.next(BATCH)
    first = time.perf_counter() - start
    start = time.perf_counter()
    for _ in range(20):
        sampler.next(BATCH)
    return {"first_batch_s": first, "samples_per_s": 20 * BATCH / (time.perf_counter() - start)}


def plain(file: Path) -> dict[str, float]:
    """Every row as a dict in a list."""
    start = time.perf_counter()
    with file.open(encoding="utf-8") as stream:
        rows = [json.loads(line) for line in stream]
    assert rows
    return {"first_batch_s": time.perf_counter() - start, "samples_per_s": 0.0}


def measured(kind: str, file: Path) -> dict[str, float]:
    """One measurement in a fresh process."""
    command = [sys.executable, __file__, "--measure", kind, "--file", str(file)]
    return json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--write", action="store_true", help=f"write {RESULT.name}")
    parser.add_argument("--measure", choices=["ours", "plain"], help=argparse.SUPPRESS)
    parser.add_argument("--file", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        found: dict[str, Any] = (ours if options.measure == "ours" else plain)(options.file)
        found["peak_mib"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        print(json.dumps(found))
        return 0
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "rows.jsonl"
        write_rows(file, options.rows)
        runs = [(measured("ours", file), measured("plain", file)) for _ in range(PASSES)]
        size = file.stat().st_size
    mine, theirs = (
        {key: statistics.median(run[side][key] for run in runs) for key in runs[0][side]} for side in (0, 1)
    )
    print(
        f"{options.rows:,} rows ({size / 2**20:.0f} MiB): first batch after {mine['first_batch_s']:.2f} s, "
        f"{mine['peak_mib']:.0f} MiB; plain list after {theirs['first_batch_s']:.2f} s, "
        f"{theirs['peak_mib']:.0f} MiB; then {mine['samples_per_s']:.0f} samples/s with their 64 x 48 images"
    )
    if options.write:
        result = {
            "rows": options.rows,
            "passes": PASSES,
            "ours": mine,
            "plain": theirs,
            "time_ratio": round(theirs["first_batch_s"] / mine["first_batch_s"], 2),
            "memory_ratio": round(theirs["peak_mib"] / mine["peak_mib"], 2),
            "machine": f"{platform.machine()}, one process",
        }
        old = json.loads(RESULT.read_text("utf-8")) if RESULT.is_file() else {}
        RESULT.write_text(json.dumps(old | result, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
