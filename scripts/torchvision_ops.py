"""Lets `import torchvision` work beside a CPU torch when torchvision's compiled library is a CUDA build.

    python scripts/torchvision_ops.py     # once, with the environment's own interpreter

torchvision declares fake versions of two operators whether its library could be loaded or not, and fails if
they have no schema. The library is not needed: all that the image processors use is Python. So the schemas
are declared when torchvision is first imported and its library cannot be loaded. A .pth file does this in
every process of the environment, spawned workers too; until torchvision is asked for, nothing is imported.
"""

from __future__ import annotations

import sys
import sysconfig
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType

NAME = "groundrl_torchvision_ops"
SCHEMAS = (
    "nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
    "qnms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
)
_kept: list[object] = []


class _BeforeTorchvision:
    """An import finder that finds nothing, but is asked first."""

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name == "torchvision":
            sys.meta_path.remove(self)
            declare_operators()
        return None


def hook() -> None:
    """Wait for torchvision's import. (A .pth file may be read twice: lib64 can be a link to lib.)"""
    if not any(isinstance(finder, _BeforeTorchvision) for finder in sys.meta_path):
        sys.meta_path.insert(0, _BeforeTorchvision())


def declare_operators() -> None:
    """Declare the operators unless torchvision's own library does."""
    import torch

    library = Path(sysconfig.get_path("platlib")) / "torchvision" / "_C.so"
    try:
        torch.ops.load_library(str(library))
    except OSError:
        declared = torch.library.Library("torchvision", "DEF")
        for schema in SCHEMAS:
            declared.define(schema)
        _kept.append(declared)  # the declaration lives as long as this object


def install(folder: Path) -> None:
    """Copy this file into site-packages with a .pth that calls `hook` at the start of every process."""
    (folder / f"{NAME}.py").write_text(Path(__file__).read_text("utf-8"), "utf-8")
    (folder / f"{NAME}.pth").write_text(f"import {NAME}; {NAME}.hook()\n", "utf-8")


if __name__ == "__main__":
    install(Path(sysconfig.get_path("purelib")))
