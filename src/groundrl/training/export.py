"""A run's model as a folder of its own, with a card that says how it came about.

    python -m groundrl.training.export RUN_DIR FOLDER [--last] [--adapter]

The folder is the best checkpoint's model (or the last one's), adapters merged, as `from_pretrained` and vLLM
load it; with `--adapter` only the adapters, as peft loads them.
"""

from __future__ import annotations

import argparse
import json
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml
from safetensors.torch import load_file, save_file

from groundrl.config.entry import guard
from groundrl.config.repo import resolve
from groundrl.errors import RunFolderError
from groundrl.learner.checkpoint import MANIFEST, Checkpoints, check_manifest, load_weights, save_model
from groundrl.models.family import family_of
from groundrl.models.load import load_policy
from groundrl.models.lora import ADAPTER, peft_config
from groundrl.run_config import RunConfig
from groundrl.training.ready import read_model_type
from groundrl.training.resume import saved_run
from groundrl.training.run_folder import CONFIG, RESULT, check_run_folder

CARD = "README.md"
FACTS = ("model", "model_sha256", "task", "seed", "config_hash", "train_fingerprint", "commit", "versions")
HEADLINE = ("iou", "acc50", "ap", "accuracy", "format", "tokens_mean")


def export(run: Path, target: Path, *, last: bool = False, adapter: bool = False) -> Path:
    """Write the folder and return it. Raises RunFolderError for a run without a model, a `target` that is
    there already, and for adapters of a run that trained none."""
    config, _ = saved_run(check_run_folder(str(run)))
    if target.exists():
        raise RunFolderError(f"{target} exists; give a folder that does not")
    trains_adapters = config.model.lora.rank > 0
    if adapter and not trains_adapters:
        raise RunFolderError(f"{run} trained no adapters (model.lora.rank is 0); leave out --adapter")
    if adapter:
        _write_adapter(config, _newest(run), target)
    elif last:
        _write_last(config, _newest(run), target)
    else:
        best = run / "best"
        problem = check_manifest(best) if best.is_dir() else "there is none"
        if problem is not None:
            raise RunFolderError(f"{best}: the best checkpoint cannot be used ({problem}); use --last")
        shutil.copytree(best, target, ignore=shutil.ignore_patterns(MANIFEST))
    (target / CARD).write_text(card(run, config, adapter=adapter, last=last or adapter), encoding="utf-8")
    return target


def _newest(run: Path) -> Path:
    return Checkpoints(run / "checkpoints", keep_last=1).newest_good(print)


def _write_last(config: RunConfig, checkpoint: Path, target: Path) -> None:
    if (checkpoint / "model").is_dir():
        shutil.copytree(checkpoint / "model", target)
        return
    policy = load_policy(config.model)
    load_weights(policy.model, load_file(checkpoint / "adapter.safetensors"))
    save_model(policy, target)


def _write_adapter(config: RunConfig, checkpoint: Path, target: Path) -> None:
    """In peft's layout: its names have `base_model.model.` in front and no adapter's name inside."""
    weights = load_file(checkpoint / "adapter.safetensors")
    target.mkdir(parents=True)
    places = {name: f"base_model.model.{name.replace(f'.{ADAPTER}.', '.')}" for name in weights}
    named = {places[name]: value for name, value in weights.items()}
    save_file(named, target / "adapter_model.safetensors")
    folder = resolve(config.model.path)
    family = family_of(read_model_type(folder / "config.json", "model.path"), str(folder))
    described = peft_config(family, config.model.lora)
    described.base_model_name_or_path = config.model.init_from or config.model.path
    described.save_pretrained(str(target))


def card(run: Path, config: RunConfig, *, adapter: bool, last: bool) -> str:
    """The model card: where it comes from, what it was trained on, what was measured."""
    result: Mapping[str, Any] = {}
    if (run / RESULT).is_file():
        result = json.loads((run / RESULT).read_text("utf-8"))
    facts: Mapping[str, Any] = result.get("run", {})
    best: Mapping[str, Any] = result.get("best", {})
    what = "Adapters" if adapter else "Model"
    step = result.get("steps") if last else best.get("step")
    lines = [
        "---",
        f"base_model: {config.model.init_from or config.model.path}",
        "library_name: peft" if adapter else "library_name: transformers",
        "---",
        "",
        f"# {what} of the run {run.name}",
        "",
        f"After step {step} of `{facts.get('command', 'unknown')}`.",
        "",
        "| | |",
        "| --- | --- |",
    ]
    lines += [f"| {name} | {facts.get(name, 'unknown')} |" for name in FACTS]
    lines += ["", "| held-out samples | before | after |", "| --- | --- | --- |"]
    evals: Mapping[str, Any] = result.get("eval", {})
    for name in (f"greedy/{metric}" for metric in HEADLINE):
        values = [evals.get(when, {}).get(name) for when in ("before", "after")]
        if any(values):
            lines.append(f"| {name} | {' | '.join(_interval(value) for value in values)} |")
    settings = yaml.safe_load((run / CONFIG).read_text("utf-8"))
    text = yaml.safe_dump(settings, sort_keys=False, allow_unicode=True)
    note = "" if last else "The numbers under `after` are those of the last step, not of this one.\n"
    return "\n".join([*lines, "", note, "## Settings", "", "```yaml", f"{text}```", ""])


def _interval(value: Mapping[str, float] | None) -> str:
    if not value:
        return ""
    return f"{value['value']:.3f} [{value['low']:.3f}, {value['high']:.3f}]"


def main(arguments: Sequence[str] | None = None) -> int:
    """Export as the command line says; 2 with one line on stderr when that cannot be done."""
    parser = argparse.ArgumentParser(prog="python -m groundrl.training.export")
    parser.add_argument("run", type=Path)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--last", action="store_true", help="the last checkpoint instead of the best")
    parser.add_argument("--adapter", action="store_true", help="only the adapters, of the last checkpoint")
    options = parser.parse_args(arguments)

    def run() -> None:
        print(export(options.run, options.folder, last=options.last, adapter=options.adapter))

    return guard(run)


if __name__ == "__main__":
    raise SystemExit(main())
