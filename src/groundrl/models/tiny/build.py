"""`make tiny`: builds the shipped checkpoints from nothing, in about a quarter of an hour on one core.

Two lines of descent, because one checkpoint of this size does not serve both tasks: grounding a phrase with
pixel-exact boxes and listing boxes at COCO thresholds need different worlds. Each has a clean parent and a
start on which faults were planted (`plant.py`).
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import transformers

from groundrl.config.compose import compose_run
from groundrl.data.base import Split
from groundrl.models.family import QWEN25_VL
from groundrl.models.processor import Processor
from groundrl.models.tiny.architecture import build_image_processor, build_model
from groundrl.models.tiny.plant import CLEAN, Faults
from groundrl.models.tiny.tokenizer import build_tokenizer
from groundrl.models.tiny.warmup import DenseHead, Stage, run_stage

SEED = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One checkpoint of the recipe: how it is trained, from its line's previous one."""

    name: str
    words: tuple[str, ...]
    steps: int
    lr: float
    muon_lr: float
    aux: float
    faults: Faults
    first_index: int


RECIPE: dict[str, tuple[Step, ...]] = {
    "rec": (
        Step(
            name="rec-clean", words=("reward=iou", "dataset.seed=7"), steps=330,
            lr=3e-3, muon_lr=2e-2, aux=0.3, faults=CLEAN, first_index=0,
        ),
        Step(
            name="rec-start", words=("reward=iou", "dataset.seed=7"), steps=30,
            lr=8e-4, muon_lr=2.5e-3, aux=0.3, first_index=100_000,
            faults=Faults(loose=(1.15, 1.65), shift=0.05),
        ),
    ),
    "ovd": (
        Step(
            name="ovd-clean", words=("reward=ap", "dataset.seed=7"), steps=900,
            lr=3e-3, muon_lr=2e-2, aux=0.3, faults=CLEAN, first_index=0,
        ),
        Step(
            name="ovd-start", words=("reward=ap", "dataset.seed=7"), steps=200,
            lr=1e-3, muon_lr=5e-3, aux=0.3, faults=Faults(false=0.25, repeat=0.3), first_index=100_000,
        ),
    ),
}  # fmt: skip
"""A clean parent and the start planted on it, for each task. `words` choose world and prompt; the world's
seed is not that of training runs, which therefore see other scenes of the same split."""


def build(out: Path, line: str) -> None:
    """Train and save the checkpoints of one line of descent below `out`, with a record of how."""
    torch.set_num_threads(1)
    tokenizer = build_tokenizer()
    image_processor = build_image_processor()
    processor = Processor(tokenizer, image_processor, QWEN25_VL)
    model = build_model(tokenizer, SEED)
    head = DenseHead(model.lm_head.in_features)
    record: dict[str, Any] = {
        "parameters": sum(p.numel() for p in model.parameters()),
        "torch": torch.__version__,
        "transformers": transformers.__version__,
        "checkpoints": {},
    }
    for step in RECIPE[line]:
        started = time.process_time()
        last = _train(model, head, processor, step)
        folder = out / step.name
        _save(model, tokenizer, image_processor, folder)
        record["checkpoints"][step.name] = {
            "sha256": hashlib.sha256((folder / "model.safetensors").read_bytes()).hexdigest(),
            "steps": step.steps,
            "last_loss": round(last, 4),
            "cpu_seconds": round(time.process_time() - started),
        }
    (out / f"build-{line}.json").write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")


def _train(model: Any, head: DenseHead, processor: Processor, step: Step) -> float:
    config = compose_run(["scale=tiny", *step.words])
    source = config.dataset.build(Split.TRAIN)
    losses: list[float] = []

    def report(number: int, answer: float, dense: float) -> None:
        losses.append(answer)
        if number % 25 == 0 or number == step.steps - 1:
            print(f"{step.name} step {number} answer {answer:.4f} dense {dense:.4f}", flush=True)

    stage = Stage(
        worlds=[(source, config.prompt.build(), 1.0)],
        steps=step.steps,
        lr=step.lr,
        muon_lr=step.muon_lr,
        aux=step.aux,
        faults=step.faults,
        grid=int(getattr(config.dataset, "grid", 1)),
        first_index=step.first_index,
    )
    run_stage(model, head, processor, stage, seed=SEED, report=report)
    return sum(losses[-10:]) / len(losses[-10:])


def _save(model: Any, tokenizer: Any, image_processor: Any, folder: Path) -> None:
    """A self-contained Hugging Face folder, weights in bfloat16."""
    folder.mkdir(parents=True, exist_ok=False)
    state = {name: value.to(torch.bfloat16) for name, value in model.state_dict().items()}
    dtype = model.config.dtype
    model.config.dtype = torch.bfloat16
    model.save_pretrained(folder, state_dict=state)
    model.config.dtype = dtype
    tokenizer.save_pretrained(folder)
    image_processor.save_pretrained(folder)


def main() -> int:
    parser = argparse.ArgumentParser(description="Build the tiny checkpoints.")
    parser.add_argument("out", type=Path, help="folder to write; one that exists is never written over")
    parser.add_argument("--only", choices=sorted(RECIPE), help="one line of descent (default: all)")
    options = parser.parse_args()
    out: Path = options.out
    if out.exists():
        print(f"error: {out} exists; a version is never replaced: choose a new folder", file=sys.stderr)
        return 2
    for line in [options.only] if options.only else RECIPE:
        build(out, line)
    return 0


if __name__ == "__main__":
    sys.exit(main())
