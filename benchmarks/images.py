"""Images per second from a file to patches: opened, upright, RGB, resized, cut; with and without workers.

Every pair of runs reads the same files, alone and with the workers right after, and the median of the pairs'
ratios counts. Written into data.json, which benchmarks/data.py makes.

    python benchmarks/images.py [--pairs 7] [--write]
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

RESULT = Path(__file__).parent / "results" / "data.json"
TOKENIZER = Path(__file__).resolve().parents[1] / "assets" / "tiny-vlm" / "v1" / "rec-clean"
SIZES = ((640, 480), (1920, 1080))
FORMATS = {"jpg": {"quality": 90}, "png": {}}
MAX_PIXELS = 1_003_520
"""As in conf/scale/7b.yaml."""
COUNT = 8
WORKERS = 2

Work = Callable[[str], Any]


def write_images(folder: Path) -> dict[str, list[str]]:
    """Smooth colours with grain, which compress about as photographs do; paths by kind."""
    rng = np.random.default_rng(0)
    kinds: dict[str, list[str]] = {}
    for width, height in SIZES:
        for number in range(COUNT):
            coarse = Image.fromarray(rng.integers(0, 256, (height // 24, width // 24, 3), dtype=np.uint8))
            smooth = np.asarray(coarse.resize((width, height), Image.Resampling.BICUBIC), dtype=np.float64)
            grain = rng.normal(0, 4, smooth.shape)
            image = Image.fromarray(np.clip(smooth + grain, 0, 255).astype(np.uint8))
            for ending, settings in FORMATS.items():
                file = folder / f"{width}x{height}-{number}.{ending}"
                image.save(file, **settings)
                kinds.setdefault(f"{width}x{height} {ending}", []).append(str(file))
    return kinds


@cache
def processor() -> Any:
    """Tokenizer of the tiny checkpoint, image processor with the family's patches and the 7B pixel limit."""
    from transformers import AutoTokenizer
    from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import Qwen2VLImageProcessorPil

    from groundrl.models.family import QWEN25_VL
    from groundrl.models.processor import Processor

    sizes = {"shortest_edge": 3136, "longest_edge": MAX_PIXELS}
    return Processor(
        AutoTokenizer.from_pretrained(str(TOKENIZER)), Qwen2VLImageProcessorPil(size=sizes), QWEN25_VL
    )


def opened(path: str) -> Any:
    from groundrl.data.images import open_image

    return open_image(Path(path).name, Path(path).parent, file=Path(path), row=1)


def prepared(path: str) -> Any:
    return processor().prepare(opened(path))


def seconds(work: Work, files: Sequence[str], pool: Executor | None) -> float:
    start = time.perf_counter()
    for made in pool.map(work, files) if pool else map(work, files):
        assert made is not None
    return time.perf_counter() - start


def compare(work: Work, files: Sequence[str], pool: Executor, pairs: int) -> dict[str, float]:
    """Medians: images per second alone and with workers, and of the pairs' ratios."""
    seconds(work, files[:2], pool)
    found = [(seconds(work, files, None), seconds(work, files, pool)) for _ in range(pairs)]
    return {
        "alone_images_per_s": round(statistics.median(len(files) / alone for alone, _ in found), 2),
        "workers_images_per_s": round(statistics.median(len(files) / both for _, both in found), 2),
        "speedup": round(statistics.median(alone / both for alone, both in found), 2),
    }


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--pairs", type=int, default=7)
    parser.add_argument("--write", action="store_true", help=f"add to {RESULT.name}")
    options = parser.parse_args()
    result: dict[str, Any] = {
        "pairs": options.pairs,
        "workers": WORKERS,
        "cores": os.cpu_count(),
        "kinds": {},
    }
    with (
        tempfile.TemporaryDirectory() as folder,
        ProcessPoolExecutor(WORKERS) as processes,
        ThreadPoolExecutor(WORKERS) as threads,
    ):
        kinds = write_images(Path(folder))
        for work in (opened, prepared):
            list(processes.map(work, next(iter(kinds.values()))))
        for kind, files in kinds.items():
            row = result["kinds"][kind] = {}
            for work in (opened, prepared):
                for name, pool in (("threads", threads), ("processes", processes)):
                    found = row[f"{work.__name__}, {name}"] = compare(work, files, pool, options.pairs)
                    print(
                        f"{kind:13} {work.__name__:8} {found['alone_images_per_s']:6.1f} images/s, {WORKERS} "
                        f"{name} {found['workers_images_per_s']:6.1f} (x {found['speedup']:.2f})",
                        flush=True,
                    )
    if options.write:
        report = json.loads(RESULT.read_text("utf-8"))
        RESULT.write_text(json.dumps(report | {"images": result}, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
