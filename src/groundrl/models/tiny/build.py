"""`make tiny`: builds the shipped checkpoints from nothing, by the recipes of a version."""

from __future__ import annotations

import argparse
import copy
import hashlib
import json
import sys
import time
from pathlib import Path
from typing import Any

import torch
import transformers

from groundrl.config.compose import compose_run
from groundrl.data.base import Split
from groundrl.models.family import QWEN25_VL
from groundrl.models.processor import Processor
from groundrl.models.tiny.architecture import build_image_processor, build_model
from groundrl.models.tiny.recipes import VERSIONS, Line, Step
from groundrl.models.tiny.tokenizer import build_tokenizer
from groundrl.models.tiny.verdicts import Wording
from groundrl.models.tiny.warmup import DenseHead, Stage, run_stage

SEED = 0


def build(out: Path, name: str, line: Line) -> None:
    """Train and save the checkpoints of one line of descent below `out`, with a record of how."""
    torch.set_num_threads(1)
    tokenizer = build_tokenizer(line.tokenizer)
    image_processor = build_image_processor()
    processor = Processor(tokenizer, image_processor, QWEN25_VL)
    model = build_model(tokenizer, SEED, line.width)
    head = DenseHead(model.lm_head.in_features)
    record: dict[str, Any] = {
        "parameters": sum(p.numel() for p in model.parameters()),
        "torch": torch.__version__,
        "transformers": transformers.__version__,
        "checkpoints": {},
    }
    parents = {step.after for step in line.steps}
    kept: dict[str, tuple[Any, Any]] = {}
    for step in line.steps:
        if step.after is not None:
            for module, state in zip((model, head), kept[step.after], strict=True):
                module.load_state_dict(state)
        started = time.process_time()
        last = _train(model, head, processor, step)
        if step.name in parents:
            kept[step.name] = copy.deepcopy(model.state_dict()), copy.deepcopy(head.state_dict())
        folder = out / step.name
        _save(model, tokenizer, image_processor, folder)
        record["checkpoints"][step.name] = {
            "sha256": hashlib.sha256((folder / "model.safetensors").read_bytes()).hexdigest(),
            "steps": step.steps,
            "last_loss": round(last, 4),
            "cpu_seconds": round(time.process_time() - started),
        }
    (out / f"build-{name}.json").write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")


def _train(model: Any, head: DenseHead, processor: Processor, step: Step) -> float:
    configs = [(compose_run(["scale=tiny", *words]), share) for words, share in step.worlds]
    losses: list[float] = []

    def report(number: int, answer: float, dense: float) -> None:
        losses.append(answer)
        if number % 25 == 0 or number == step.steps - 1:
            print(f"{step.name} step {number} answer {answer:.4f} dense {dense:.4f}", flush=True)

    stage = Stage(
        worlds=[(one.dataset.build(Split.TRAIN), one.prompt.build(), share) for one, share in configs],
        steps=step.steps,
        lr=step.lr,
        muon_lr=step.muon_lr,
        aux=step.aux,
        faults=step.faults,
        grid=int(getattr(configs[0][0].dataset, "grid", 1)),
        first_index=step.first_index,
        whole_scene=step.whole_scene,
        verdicts=step.verdicts,
        wording=_wording() if step.verdicts is not None else None,
    )
    run_stage(model, head, processor, stage, seed=SEED, report=report)
    return sum(losses[-10:]) / len(losses[-10:])


def _wording() -> Wording:
    """The sentences of conf/verify/loop.yaml: the tiny model reads no others."""
    loop = compose_run(["rollout=self_verify"]).loop()
    assert loop is not None
    return Wording(verify=loop.verify_prompt, rethink=loop.rethink_prompt, yes=loop.yes, no=loop.no)


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
    parser.add_argument("--version", type=int, choices=sorted(VERSIONS), default=1)
    parser.add_argument("--only", help="one line of descent (default: all)")
    options = parser.parse_args()
    lines = VERSIONS[options.version]
    if options.only is not None and options.only not in lines:
        print(f"error: --only: no line {options.only!r}; there are {', '.join(lines)}", file=sys.stderr)
        return 2
    out: Path = options.out
    if out.exists():
        print(f"error: {out} exists; a version is never replaced: choose a new folder", file=sys.stderr)
        return 2
    for name in [options.only] if options.only else lines:
        build(out, name, lines[name])
    return 0


if __name__ == "__main__":
    sys.exit(main())
