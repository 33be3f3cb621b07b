"""A run folder with made-up but plausible content: a policy that learns to point at shapes."""

from __future__ import annotations

import json
import math
import random
from pathlib import Path
from typing import Any

from PIL import Image, ImageDraw

SIZE = 112
COLOURS = {"red": "#d62828", "green": "#2ea043", "blue": "#2654d6", "yellow": "#f0cd28", "purple": "#8e3ab4"}
SHAPES = ("circle", "square", "triangle")
FAILURES = ("no_answer_tag", "bad_json", "no_box", "several_boxes", "truncated")
Box = tuple[int, int, int, int]


def make_run(
    folder: Path, *, steps: int = 240, samples: int = 8, evals: int = 10, train_every: int = 60
) -> Path:
    """Write all files of a finished run into `folder`."""
    rng = random.Random(7)
    folder.mkdir(parents=True, exist_ok=True)
    eval_steps = sorted({round(index * steps / max(1, evals - 1)) for index in range(evals)})
    metrics = [_eval_line(step, steps, rng) for step in eval_steps[:1]]
    for step in range(1, steps + 1):
        metrics.append({"step": step, "kind": "train", "metrics": _train_metrics(step, steps, rng)})
        if step in eval_steps:
            metrics.append(_eval_line(step, steps, rng))
    write_lines(folder / "metrics.jsonl", metrics)
    write_lines(folder / "gallery.jsonl", _gallery(folder, eval_steps, steps, samples, train_every, rng))
    (folder / "config.yaml").write_text(CONFIG)
    (folder / "result.json").write_text(json.dumps(_result(metrics, steps)))
    return folder


def write_lines(path: Path, records: list[dict[str, Any]]) -> None:
    path.write_text("".join(json.dumps(record) + "\n" for record in records))


def _skill(step: int, steps: int) -> float:
    return 1 / (1 + math.exp(-9 * (step / steps - 0.4)))


def _train_metrics(step: int, steps: int, rng: random.Random) -> dict[str, float | None]:
    skill = _skill(step, steps)
    iou = min(1.0, max(0.0, 0.14 + 0.62 * skill + rng.gauss(0, 0.05)))
    form = min(1.0, 0.55 + 0.44 * skill + rng.gauss(0, 0.015))
    failures = {
        kind: max(0.0, (0.14 - 0.02 * i) * (1 - skill) + rng.gauss(0, 0.006))
        for i, kind in enumerate(FAILURES)
    }
    rollout, reward, learner, sync = (
        max(0.01, base + rng.gauss(0, base / 12)) for base in (1.1, 0.05, 0.7, 0.04)
    )
    return {
        "reward/total": iou + 0.2 * form,
        "reward/iou": iou,
        "reward/format": form,
        "reward/rec/total": iou + 0.2 * form + 0.05,
        "reward/ovd/total": iou + 0.2 * form - 0.07,
        "rollout/tokens_mean": 74 - 26 * skill + rng.gauss(0, 2),
        "rollout/tokens_max": 128 - 30 * skill + rng.gauss(0, 6),
        "rollout/truncated_frac": failures["truncated"],
        "rollout/boxes_mean": 1.9 - 0.6 * skill + rng.gauss(0, 0.05),
        "parse/ok_frac": 1 - sum(failures.values()),
        "parse/rejected_mean": failures["no_box"],
        "parse/clipped_mean": 0.01,
        "group/reward_std": 0.3 - 0.1 * skill,
        "group/missing_frac": 0.0,
        "learner/rows": 64.0,
        **{f"parse/{kind}_frac": value for kind, value in failures.items()},
        "group/zero_spread_frac": min(
            1.0, max(0.0, 0.35 - 0.3 * skill + 0.35 * skill**3 + rng.gauss(0, 0.05))
        ),
        "learner/loss": rng.gauss(0.004, 0.012),
        "learner/grad_norm": abs(rng.gauss(0.9 - 0.4 * skill, 0.15)),
        "learner/lr": 1e-5 * min(1.0, step / 20) * (1 - 0.9 * step / steps),
        "learner/entropy": 1.1 - 0.75 * skill + rng.gauss(0, 0.03),
        "learner/kl_ref": 0.09 * skill + abs(rng.gauss(0, 0.004)),
        "learner/approx_kl": abs(rng.gauss(0.002, 0.0008)),
        "learner/clip_low_frac": abs(rng.gauss(0.006, 0.003)),
        "learner/clip_high_frac": abs(rng.gauss(0.012, 0.004)),
        "learner/mismatch_kl": abs(rng.gauss(2e-6, 1e-6)),
        "learner/mismatch_max": abs(rng.gauss(4e-4, 1e-4)),
        "time/step": rollout + reward + learner + sync + 0.05,
        "time/rollout": rollout,
        "time/reward": reward,
        "time/learner": learner,
        "time/sync": sync,
        "perf/tokens_per_s": 1480 + 220 * skill + rng.gauss(0, 60),
        "perf/memory_mb": 612 + 30 * skill,
    }


def _eval_line(step: int, steps: int, rng: random.Random) -> dict[str, Any]:
    skill = _skill(step, steps)
    values = {
        "greedy/acc50": 0.12 + 0.62 * skill,
        "greedy/ap": 0.05 + 0.36 * skill,
        "greedy/format": 0.6 + 0.37 * skill,
        "greedy/gp50": 0.21 + 0.5 * skill,
        "greedy/gr50": 0.24 + 0.41 * skill,
        "greedy/iou": 0.2 + 0.5 * skill,
        "greedy/parse/ok_frac": 0.6 + 0.35 * skill,
        "greedy/tokens_mean": 72 - 25 * skill,
        "sampled/iou": 0.17 + 0.48 * skill,
        "sampled/pass@4": 0.31 + 0.5 * skill,
    }
    metrics: dict[str, Any] = {}
    for name, value in values.items():
        half = 2.1 if name.endswith("tokens_mean") else 0.034
        noisy = value + rng.gauss(0, half / 5)
        metrics[name] = {"value": noisy, "low": noisy - half, "high": noisy + half}
    return {"step": step, "kind": "eval", "metrics": metrics}


def _result(metrics: list[dict[str, Any]], steps: int) -> dict[str, Any]:
    evals = [line["metrics"] for line in metrics if line["kind"] == "eval"]
    before, after = evals[0], evals[-1]
    difference: dict[str, Any] = {}
    for name, value in after.items():
        change = value["value"] - before[name]["value"]
        half = 0.75 * (value["high"] - value["low"])
        difference[name] = {"value": change, "low": change - half, "high": change + half}
    return {
        "status": "finished",
        "steps": steps,
        "train_seconds": 463.2,
        "best": {"metric": "greedy/iou", "step": steps, "value": after["greedy/iou"]["value"]},
        "eval": {
            "before": before,
            "after": after,
            "difference": difference,
            "references": {"clean parent": {"greedy/iou": {"value": 0.79, "low": 0.76, "high": 0.82}}},
        },
        "run": {
            "command": "python train.py experiment=shapes_grpo reward=iou scale=tiny seed=3",
            "commit": "4f1c09be6a1d7c0e",
            "config_hash": "9c1f22ab",
            "seed": 3,
            "device": "cpu, 1 thread",
            "versions": {"torch": "2.13.0", "transformers": "5.19.0"},
            "task": "rec",
            "heldout": "256 samples",
            "train_fingerprint": "e3b0c44298fc1c14",
            "model": "assets/tiny-vlm/v1/rec-start",
            "parameters": "783,296 (783,296 learn)",
            "model_sha256": "77a1d0c2e9",
        },
    }


def _scene(rng: random.Random) -> tuple[Image.Image, list[tuple[str, Box]]]:
    ground = rng.randrange(100, 200)
    image = Image.new("RGB", (SIZE, SIZE), (ground, ground, ground))
    draw = ImageDraw.Draw(image)
    objects: list[tuple[str, Box]] = []
    names = rng.sample([f"{colour} {shape}" for colour in COLOURS for shape in SHAPES], 3)
    for index, name in enumerate(names):
        side = rng.randrange(24, 42)
        x, y = (
            (index % 2) * 56 + rng.randrange(0, 56 - side // 2 - 20),
            (index // 2) * 56 + rng.randrange(0, 12),
        )
        box = (x, y, min(SIZE, x + side), min(SIZE, y + side))
        colour, shape = name.split()
        if shape == "circle":
            draw.ellipse(box, fill=COLOURS[colour])
        elif shape == "square":
            draw.rectangle(box, fill=COLOURS[colour])
        else:
            draw.polygon(
                [(box[0], box[3]), (box[2], box[3]), ((box[0] + box[2]) // 2, box[1])], fill=COLOURS[colour]
            )
        objects.append((name, box))
    return image, objects


def _gallery(
    folder: Path, eval_steps: list[int], steps: int, samples: int, train_every: int, rng: random.Random
) -> list[dict[str, Any]]:
    (folder / "images").mkdir(exist_ok=True)
    records: list[dict[str, Any]] = []
    held_out = [_sample(folder, f"shapes-held-{index:03d}", index % 2 == 1, rng) for index in range(samples)]
    for step in eval_steps:
        skill = _skill(step, steps)
        for sample in held_out:
            rollouts = [_rollout(sample, skill, "greedy", rng)]
            records.append({"step": step, "phase": "eval", **sample, "rollouts": rollouts})
    for step in range(train_every, steps + 1, train_every) if train_every else ():
        sample = _sample(folder, f"shapes-train-{step:04d}", step % (2 * train_every) == 0, rng)
        rollouts = [_rollout(sample, _skill(step, steps) * 0.9, "sampled", rng) for _ in range(4)]
        records.append({"step": step, "phase": "train", **sample, "rollouts": rollouts})
    return records


def _sample(folder: Path, sample_id: str, detect: bool, rng: random.Random) -> dict[str, Any]:
    image, objects = _scene(rng)
    image.save(folder / "images" / f"{sample_id}.png")
    truth = [{"bbox": list(box), "label": name} for name, box in objects]
    targets = [name for name, _ in objects[:2]]
    return {
        "sample_id": sample_id,
        "task": "ovd" if detect else "rec",
        "question": "" if detect else f"the {objects[0][0]} near the {objects[1][0]}",
        "targets": [*targets, "orange square"] if detect else [],
        "image": f"images/{sample_id}.png",
        "size": [SIZE, SIZE],
        "truth": truth[:2] if detect else truth[:1],
    }


def _rollout(sample: dict[str, Any], skill: float, kind: str, rng: random.Random) -> dict[str, Any]:
    failed = rng.random() > 0.45 + 0.55 * skill
    boxes: list[dict[str, Any]] = []
    overlaps: list[float] = []
    for truth in sample["truth"]:
        spread = 26 * (1 - skill) + 1.2
        noisy = [min(SIZE, max(0, round(edge + rng.gauss(0, spread)))) for edge in truth["bbox"]]
        x1, x2 = sorted((noisy[0], noisy[2]))
        y1, y2 = sorted((noisy[1], noisy[3]))
        box = [x1, y1, max(x2, x1 + 3), max(y2, y1 + 3)]
        boxes.append({"bbox": box, "label": truth["label"] if sample["task"] == "ovd" else ""})
        overlaps.append(_iou(box, truth["bbox"]))
    items = [{"bbox_2d": box["bbox"], **({"label": box["label"]} if box["label"] else {})} for box in boxes]
    name = sample["truth"][0]["label"]
    think = (
        f"I look for the {name}. It is {rng.choice(['near the top', 'on the left', 'below the others'])}, "
        f"so its corners are about {boxes[0]['bbox']}."
    )
    body = json.dumps(items)[:-9] if failed else json.dumps(items)
    mean = 0.0 if failed else sum(overlaps) / len(overlaps)
    form = 0.0 if failed else 1.0
    detail = {"iou": mean} if sample["task"] == "rec" else {"matched": float(len(boxes)), "iou_mean": mean}
    return {
        "kind": kind,
        "text": f"<think>{think}</think><answer>```json\n{body}\n```</answer>",
        "think": think,
        "status": "finished",
        "parse_status": "bad_json" if failed else "ok",
        "boxes": [] if failed else boxes,
        "rejected": [] if skill > 0.3 or failed else ["outside_image"],
        "tokens": len(think.split()) + 24,
        "reward": {
            "total": mean + 0.2 * form,
            "terms": {
                "iou": {"value": mean, "weight": 1.0, "detail": detail},
                "format": {"value": form, "weight": 0.2, "detail": {}},
            },
        },
    }


def _iou(a: list[int], b: list[int]) -> float:
    width = min(a[2], b[2]) - max(a[0], b[0])
    height = min(a[3], b[3]) - max(a[1], b[1])
    shared = max(0, width) * max(0, height)
    areas = (a[2] - a[0]) * (a[3] - a[1]) + (b[2] - b[0]) * (b[3] - b[1])
    return shared / (areas - shared)


CONFIG = """\
seed: 3
model:
  name: tiny-vlm-v1
reward:
  terms:
    iou: {weight: 1.0}
    format: {weight: 0.2}
algorithm:
  group_size: 8
  learning_rate: 1.0e-05
tracker:
  api_key: wandb-0123456789
"""
