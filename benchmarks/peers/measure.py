"""What both sides of a comparison share: the same pictures and question, and how memory is measured."""

from __future__ import annotations

import ctypes
import gc
import re
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw


def picture(number: int, size: int) -> Image.Image:
    """A square picture with one rectangle."""
    image = Image.new("RGB", (size, size), (40 * number % 256, 90, 200))
    place = (7 * number + 3) % (size // 2)
    end = place + size // 3
    ImageDraw.Draw(image).rectangle([place, place, end, end], fill=(255, 20 * number % 256, 0))
    return image


def question() -> str:
    return "the red circle left of the blue square"


class Peak:
    """Peak resident memory of the process between `begin` and `end`, in MiB (Linux)."""

    def begin(self) -> None:
        self.before = reset_peak()

    def end(self) -> dict[str, float]:
        """peak_mib: the whole process; grown_mib: above what it held at `begin`."""
        peak = resident("VmHWM")
        return {"peak_mib": peak, "grown_mib": peak - self.before}


def resident(kind: str) -> float:
    """VmRSS or VmHWM, MiB."""
    found = re.search(rf"{kind}:\s+(\d+)", Path("/proc/self/status").read_text())
    return int(found[1]) / 1024 if found else float("nan")


def reset_peak() -> float:
    """Give free memory back and forget the peak so far; returns the present resident set, MiB."""
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    Path("/proc/self/clear_refs").write_text("5")
    return resident("VmRSS")


def interval(values: list[float]) -> list[float]:
    """2.5th and 97.5th percentile of the median under resampling."""
    rng = np.random.default_rng(0)
    medians = np.median(rng.choice(values, size=(2000, len(values))), axis=1)
    return [round(float(q), 3) for q in np.quantile(medians, [0.025, 0.975])]
