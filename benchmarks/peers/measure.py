"""What both sides of a comparison share: the same pictures and question, and how memory is measured."""

from __future__ import annotations

import re
from pathlib import Path

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
        Path("/proc/self/clear_refs").write_text("5")
        self.before = _status("VmRSS")

    def end(self) -> dict[str, float]:
        """peak_mib: the whole process; grown_mib: above what it held at `begin`, with the model loaded."""
        peak = _status("VmHWM")
        return {"peak_mib": peak, "grown_mib": peak - self.before}


def _status(name: str) -> float:
    found = re.search(rf"{name}:\s+(\d+)", Path("/proc/self/status").read_text())
    assert found
    return int(found[1]) / 1024
