"""What composing and `--help` may import, and the one-way flow between packages."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
HEAVY = (
    "torch",
    "transformers",
    "wandb",
    "vllm",
    "matplotlib",
    "peft",
    "tensorboard",
    "scipy",
    "pycocotools",
)
WATCH = f"""
import contextlib, io, json, sys
sys.argv = ["train.py"]
import train
from groundrl.config.registry import config_modules, load_all

def heavy():
    return [name for name in {HEAVY!r} if name in sys.modules]

seen = {{"entry": heavy()}}
load_all()
seen["modules"] = heavy()
with contextlib.redirect_stdout(io.StringIO()) as help_text:
    assert train.LAUNCHER.start(train.main, ["--help"]) == 0
seen["help"] = heavy()
ran = []
train.LAUNCHER.job = lambda config, invocation: ran.append(config) or 0
train.LAUNCHER.ready = ran.append
assert train.LAUNCHER.start(train.main, ["-m", "reward=odlength,iou", "model=qwen7b"]) == 0
assert len(ran) == 4
seen["compose"] = heavy()
import torch
seen["control"] = heavy()
print(json.dumps({{"seen": seen, "modules": config_modules(), "help": help_text.getvalue()[:80]}}))
"""


def run(*command: str, cwd: Path = ROOT) -> subprocess.CompletedProcess[str]:
    own = {**os.environ, "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}"}
    return subprocess.run(command, capture_output=True, text=True, cwd=cwd, timeout=120, env=own, check=False)


def test_help_checks_and_configs_import_nothing_heavy(tmp_path: Path) -> None:
    done = run(sys.executable, "-c", WATCH, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    seen = found["seen"]
    assert seen.pop("control") == ["torch"]  # the watch does see what is imported
    assert seen == {"entry": [], "modules": [], "help": [], "compose": []}
    assert found["help"].startswith("GroundRL")
    assert len(found["modules"]) > 15


def test_packages_only_import_downwards() -> None:
    done = run(str(Path(sys.executable).parent / "lint-imports"), "--no-cache")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "one-way flow KEPT" in done.stdout
    assert "only engines may import vllm KEPT" in done.stdout
    assert "0 broken" in done.stdout


def test_the_flow_has_no_more_exceptions_than_it_needs() -> None:
    """Two annotations in config name the type of the whole run; every other arrow points down."""
    import tomllib

    settings = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["importlinter"]
    assert not settings.get("exclude_type_checking_imports", False)
    flow = next(contract for contract in settings["contracts"] if contract["name"] == "one-way flow")
    assert flow["exhaustive"]
    assert flow["ignore_imports"] == [
        "groundrl.config.compose -> groundrl.run_config",
        "groundrl.config.entry -> groundrl.run_config",
    ]
    layers = [layer.replace(":", "|").split(" | ") for layer in flow["layers"]]
    names = [name.strip() for layer in flow["layers"] for name in layer.replace(":", "|").split("|")]
    assert len(layers) == 18
    assert (
        names.index("training") < names.index("run_config") < names.index("learner") < names.index("rewards")
    )
    assert names.index("models") < names.index("geometry") < names.index("config") < names.index("types")
