"""A whole GRPO step, generation included, against TRL's GRPOTrainer on the same model, prompts and lengths.

Both sides run in processes of their own, one thread, pair by pair in turn; the ratio of a pair is TRL's CPU
seconds over ours, and the table shows the median of the pairs' ratios with the smallest and the largest. TRL
runs in an environment of its own, given by its interpreter, with the better of two micro-batch sizes (chosen
by a first run of each), left padding and without gradient checkpointing; with `--compact` it scores only the
completions' positions, which it does by itself on GPUs but not on CPUs.

    python benchmarks/grpo_step.py --peer PYTHON_OF_TRL [--sizes a b c] [--models s m] [--pairs 7] [--write]
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
RESULT = HERE / "results" / "grpo_step.json"
SIZES = {
    "a": {"prompts": 8, "group": 8, "tokens": 64, "size": 112},
    "b": {"prompts": 2, "group": 8, "tokens": 64, "size": 896},
    "c": {"prompts": 4, "group": 8, "tokens": 128, "size": 448},
}
"""Short (16 image tokens), long (1024) and middle (256)."""
MODELS = {"s": {}, "m": {"hidden_size": 384, "intermediate_size": 1536, "num_hidden_layers": 6}}
"""The tiny model (about 0.8 M parameters), and a larger one of the same kind."""
PARTS = ("step", "generate", "learn")


def write_model(folder: Path, changes: dict[str, int]) -> int:
    """A checkpoint folder that both sides load; returns the number of parameters."""
    import torch
    from transformers import AutoTokenizer, Qwen2_5_VLForConditionalGeneration

    from groundrl.config.repo import resolve
    from groundrl.models.families.qwen2_5_vl import QWEN25_VL
    from groundrl.models.tiny.architecture import build_config, build_image_processor

    tokenizer: Any = AutoTokenizer.from_pretrained(str(resolve("assets/tiny-vlm/v1/rec-start")))
    config: Any = build_config(tokenizer)
    for name, value in changes.items():
        setattr(config.text_config, name, value)
    if changes:
        heads = changes["hidden_size"] // 32
        config.text_config.num_attention_heads = heads
        config.text_config.num_key_value_heads = heads // 2
        config.text_config.layer_types = ["full_attention"] * changes["num_hidden_layers"]
        config.vision_config.out_hidden_size = changes["hidden_size"]
    torch.manual_seed(0)
    model = Qwen2_5_VLForConditionalGeneration(config).float()
    model.generation_config.eos_token_id = tokenizer.eos_token_id
    model.generation_config.pad_token_id = tokenizer.pad_token_id
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    build_image_processor().save_pretrained(folder)
    banned = [*QWEN25_VL.vision_tokens, tokenizer.eos_token, tokenizer.pad_token]
    (folder / "banned.json").write_text(json.dumps(sorted(tokenizer.convert_tokens_to_ids(banned))))
    return sum(parameter.numel() for parameter in model.parameters())


def measured(python: str, script: str, folder: Path, size: dict[str, int], *more: str) -> dict[str, float]:
    """One measurement in a fresh process: medians of CPU seconds, and memory."""
    words = [f"--{name}={value}" for name, value in size.items()]
    command = [python, str(HERE / "peers" / script), f"--folder={folder}", *words, *more]
    environment = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": ""}
    if python == sys.executable:
        environment["PYTHONPATH"] = str(HERE.parent / "src")
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    if done.returncode:
        raise SystemExit(f"{script} failed:\n{done.stderr[-3000:]}")
    found = json.loads(done.stdout.strip().splitlines()[-1])
    return {name: statistics.median(v) if isinstance(v, list) else v for name, v in found.items()}


def compared(peer: str, folder: Path, size: dict[str, int], options: argparse.Namespace) -> dict[str, Any]:
    """Pairs of one size and model."""
    rollouts = size["prompts"] * size["group"]
    with tempfile.TemporaryDirectory() as scratch:
        steps = f"--steps={options.steps}"
        own = [steps, "--words", *options.words]
        shared = [steps, f"--output={scratch}", *(["--compact"] if options.compact else [])]
        tries = {
            micro: measured(peer, "trl_step.py", folder, size, *shared, f"--micro={micro}")
            for micro in (rollouts, size["group"])
        }
        micro = min(tries, key=lambda one: tries[one]["step"])
        pairs = []
        for number in range(options.pairs):
            ours = measured(sys.executable, "our_step.py", folder, size, *own)
            theirs = measured(peer, "trl_step.py", folder, size, *shared, f"--micro={micro}")
            pairs.append((ours, theirs))
            print(f"  pair {number + 1}: {ours['step']:.2f} s, TRL {theirs['step']:.2f} s", flush=True)
    out: dict[str, Any] = {"peer_micro_batch": micro}
    for name in (*PARTS, "grown_mib", "peak_mib"):
        ratios = [theirs[name] / ours[name] for ours, theirs in pairs]
        out[name] = {
            "ours": round(statistics.median(ours[name] for ours, _ in pairs), 4),
            "peer": round(statistics.median(theirs[name] for _, theirs in pairs), 4),
            "ratio": round(statistics.median(ratios), 2),
            "low_high": [round(min(ratios), 2), round(max(ratios), 2)],
        }
    return out


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--peer", required=True, help="python of the environment that holds trl")
    parser.add_argument("--sizes", nargs="*", default=list(SIZES), choices=list(SIZES))
    parser.add_argument("--models", nargs="*", default=list(MODELS), choices=list(MODELS))
    parser.add_argument("--pairs", type=int, default=7)
    parser.add_argument("--steps", type=int, default=2, help="measured steps of a process, after one more")
    parser.add_argument("--compact", action="store_true")
    parser.add_argument("--words", nargs="*", default=[], help="settings of our side")
    parser.add_argument("--write", action="store_true", help=f"add to {RESULT.name}")
    options = parser.parse_args()
    versions = (
        "import trl, torch, transformers as t; print(trl.__version__, torch.__version__, t.__version__)"
    )
    peer_versions = subprocess.run(
        [options.peer, "-c", versions], capture_output=True, text=True, check=True
    ).stdout.split()
    table: dict[str, Any] = json.loads(RESULT.read_text("utf-8")) if RESULT.is_file() else {}
    for model in options.models:
        with tempfile.TemporaryDirectory() as folder:
            count = write_model(Path(folder), MODELS[model])
            for size in options.sizes:
                print(f"{model} ({count:,} parameters), size {size}", flush=True)
                row = compared(options.peer, Path(folder), SIZES[size], options)
                kind = "compacted TRL" if options.compact else "TRL"
                parts = ", ".join(f"{part} x {row[part]['ratio']:.2f}" for part in PARTS)
                print(
                    f"  against {kind}: {parts}, memory grown x {row['grown_mib']['ratio']:.2f}", flush=True
                )
                table[f"{model} {size}{' compacted' if options.compact else ''}"] = {
                    "parameters": count,
                    **SIZES[size],
                    "pairs": options.pairs,
                    "versions": dict(zip(("trl", "torch", "transformers"), peer_versions, strict=True)),
                    "settings": options.words,
                    "machine": f"{platform.machine()}, {os.cpu_count()} cores, one thread",
                    **row,
                }
                if options.write:
                    RESULT.write_text(json.dumps(table, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
