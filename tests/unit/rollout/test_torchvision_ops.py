"""The shim of the second environment: waits for torchvision, declares what its library would, once."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from scripts.torchvision_ops import NAME, install

PROBE = f"""
import site, sys
site.addsitedir(sys.argv[1]); site.addsitedir(sys.argv[1])
print([type(f).__name__ for f in sys.meta_path].count("_BeforeTorchvision"), "torch" in sys.modules)
import torch
print(hasattr(torch.ops.torchvision, "nms"))
from importlib.util import find_spec
sys.modules.pop("torchvision", None); find_spec("torchvision"); find_spec("torchvision")
print(torch.ops.torchvision.nms, [type(f).__name__ for f in sys.meta_path].count("_BeforeTorchvision"))
import {NAME}
print(len({NAME}._kept) <= 1)
"""


def test_the_operators_appear_when_torchvision_is_asked_for_and_not_before(tmp_path: Path) -> None:
    install(tmp_path)
    done = subprocess.run([sys.executable, "-c", PROBE, str(tmp_path)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["1 False", "False", "torchvision.nms 0", "True"]
