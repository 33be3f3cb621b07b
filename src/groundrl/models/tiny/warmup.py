"""Supervised warm-up of the tiny VLM: answers with cross-entropy, and a dense head on the image tokens.

The dense head (objectness, colour, shape, side offsets relative to the token's own cell) makes the vision
tower see where things end; it is thrown away. Offsets are relative because Qwen2.5-VL's tower has only
relative positions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from groundrl.data.base import SampleSource
from groundrl.data.drawn import Drawn
from groundrl.data.scene import COLOURS, SHAPES, SceneObject
from groundrl.data.world import SceneConfig, World
from groundrl.models.forward import Row, embed, image_features, pack
from groundrl.models.processor import Processor
from groundrl.models.tiny.muon import Muon
from groundrl.models.tiny.plant import Faults, loosen, pollute, step_out
from groundrl.models.tiny.verdicts import Lesson, Verdicts, Wording, lesson
from groundrl.prompting.answer import write_answer
from groundrl.prompting.prompt import Prompt
from groundrl.types import LabeledBox, Sample, Task

COUNTS = ("none", "one", "two", "three", "four", "five")
CELL = 28


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """A stretch of warm-up: which worlds in which proportion, with which faults, for how long.

    whole_scene: the dense head learns all objects of a scene, not only those asked for (needs worlds that
    are a `World`); verdicts and wording: what is taught of verdicts on text answers
    """

    worlds: Sequence[tuple[SampleSource, Prompt, float]]
    steps: int
    lr: float
    muon_lr: float
    faults: Faults
    batch: int = 64
    aux: float = 0.3
    grid: int = 1
    first_index: int = 0
    warm: int = 30
    whole_scene: bool = False
    verdicts: Verdicts | None = None
    wording: Wording | None = None


class DenseHead(nn.Module):
    """Per image token: 1 objectness, colours, shapes, 4 offsets in cells."""

    def __init__(self, hidden: int) -> None:
        super().__init__()
        self.out = nn.Sequential(
            nn.Linear(hidden, hidden), nn.GELU(), nn.Linear(hidden, 1 + len(COLOURS) + len(SHAPES) + 4)
        )

    def forward(self, features: Tensor) -> Tensor:
        return self.out(features)


def think_text(sample: Sample) -> str:
    """What the warm-up teaches to think: where the object is (rec, and what answers a question), or how many
    there are."""
    boxes = sample.truth.boxes or sample.truth.evidence
    if sample.task is Task.ovd or len(boxes) != 1:
        return f"{COUNTS[min(len(boxes), len(COUNTS) - 1)]} found"
    x1, y1, x2, y2 = boxes[0].xyxy
    width, height = sample.images[0].size
    vertical = "top" if (y1 + y2) / 2 < height / 2 else "bottom"
    horizontal = "left" if (x1 + x2) / 2 < width / 2 else "right"
    return f"{vertical} {horizontal}"


def target_text(sample: Sample, faults: Faults, grid: int, rng: np.random.Generator) -> str:
    """The supervised completion, faults included."""
    if sample.task is Task.rec:
        box = loosen(sample.truth.boxes[0].xyxy, sample.images[0].size, faults, rng)
        if faults.outward:
            box = step_out(box, sample.images[0].size, grid, faults.outward, rng)
        boxes = [LabeledBox(xyxy=box)]
    else:
        side = grid * max(1, round(40 / grid))
        boxes = pollute(sample, faults, grid, side, rng)
    text = write_answer(sample.task, boxes, None, think_text(sample))
    if faults.bare and rng.random() < faults.bare:
        return text.split("<answer>")[1].removesuffix("</answer>")
    return text


def text_lesson(sample: Sample, processor: Processor, stage: Stage, rng: np.random.Generator) -> Lesson:
    """The supervised completion of a question with a text answer, faults and verdicts included."""
    think = think_text(sample)

    def write(answer: str) -> str:
        return write_answer(sample.task, (), answer, think)

    misreads = stage.faults.misread.get(sample.source, 0.0)
    return lesson(sample, processor, stage.verdicts, stage.wording, write, misreads, rng)


def named_objects(sample: Sample) -> list[SceneObject]:
    """The objects that the truth names by colour and shape."""
    found: list[SceneObject] = []
    for box in sample.truth.boxes:
        words = box.label.split()
        if len(words) == 2 and words[0] in COLOURS and words[1] in SHAPES:
            found.append(SceneObject(colour=words[0], shape=words[1], xyxy=box.xyxy))
    return found


def dense_targets(objects: Sequence[SceneObject], grid_thw: tuple[int, int, int]) -> np.ndarray:
    """[tokens, 3 + 4]: covered (0/1), colour index, shape index, offsets of the sides from the cell's centre.

    Objects may be missing, so tokens that none covers are not learnt as empty.
    """
    rows, columns = grid_thw[1] // 2, grid_thw[2] // 2
    out = np.zeros((rows * columns, 7), dtype=np.float32)
    for r in range(rows):
        for c in range(columns):
            x, y = (c + 0.5) * CELL, (r + 0.5) * CELL
            for item in objects:
                x1, y1, x2, y2 = item.xyxy
                if x1 - CELL / 2 <= x <= x2 + CELL / 2 and y1 - CELL / 2 <= y <= y2 + CELL / 2:
                    offsets = [(x - x1) / CELL, (y - y1) / CELL, (x2 - x) / CELL, (y2 - y) / CELL]
                    out[r * columns + c] = [
                        1, list(COLOURS).index(item.colour), SHAPES.index(item.shape), *offsets,
                    ]  # fmt: skip
    return out


def dense_loss(predicted: Tensor, truth: Tensor) -> Tensor:
    """Objectness, classes and offsets of covered tokens, weighted equally."""
    nc, ns = len(COLOURS), len(SHAPES)
    covered = truth[:, 0] > 0
    if not bool(covered.any()):
        return predicted.sum() * 0.0
    p, t = predicted[covered], truth[covered]
    colour = F.cross_entropy(p[:, 1 : 1 + nc], t[:, 1].long())
    shape = F.cross_entropy(p[:, 1 + nc : 1 + nc + ns], t[:, 2].long())
    offsets = F.smooth_l1_loss(p[:, -4:], t[:, 3:], beta=0.1)
    return colour + shape + 2.0 * offsets


def run_stage(
    model: Any,
    head: DenseHead,
    processor: Processor,
    stage: Stage,
    *,
    seed: int,
    report: Callable[[int, float, float], None],
) -> None:
    """Train `model` in place. The learning rate is held for 30 % of the stage, then falls to a tenth."""
    rng = np.random.default_rng([seed, stage.first_index])
    device = next(model.parameters()).device
    named = [*model.named_parameters(), *head.named_parameters()]
    matrices = [p for n, p in named if p.ndim == 2 and "embed" not in n]
    rest = [p for n, p in named if not (p.ndim == 2 and "embed" not in n)]
    optimisers = [
        torch.optim.AdamW(rest, lr=stage.lr, betas=(0.9, 0.95), weight_decay=0.0),
        Muon(matrices, lr=stage.muon_lr),
    ]
    peaks = [stage.lr, stage.muon_lr]
    weights = np.array([share for _, _, share in stage.worlds])
    weights = weights / weights.sum()
    next_index = [stage.first_index] * len(stage.worlds)
    model.train()
    for step in range(stage.steps):
        rows: list[Row] = []
        lessons: list[Lesson] = []
        truths: list[np.ndarray] = []
        for _ in range(stage.batch):
            which = int(rng.choice(len(weights), p=weights))
            source, prompt, _ = stage.worlds[which]
            if isinstance(source, Drawn):
                sample, parts = cast("Drawn[Any, Any]", source).draw(next_index[which])
                objects = [SceneObject(colour=one.colour, shape="square", xyxy=one.xyxy) for one in parts]
            elif stage.whole_scene:
                assert isinstance(source, World)
                world: World[SceneConfig] = source
                sample, objects = world.draw(next_index[which])
            else:
                sample = source.sample(next_index[which])
                objects = named_objects(sample)
            next_index[which] += 1
            image = processor.prepare(sample.images[0])
            if sample.task is Task.text:
                made = text_lesson(sample, processor, stage, rng)
            else:
                ids = processor.encode(target_text(sample, stage.faults, stage.grid, rng) + "<|im_end|>")
                made = Lesson(ids=ids, learned=np.ones(len(ids), dtype=np.bool_))
            ids = processor.render(prompt.messages(sample), (image,))
            rows.append(Row(prompt=ids, images=(image,), completion=made.ids))
            lessons.append(made)
            truths.append(dense_targets(objects, image.grid_thw))
        packed = pack(rows, model, pad_id=processor.pad_id, device=device)
        features = image_features(model, packed)
        assert features is not None
        hidden = model.model.language_model(
            inputs_embeds=embed(model, packed, features),
            position_ids=packed.positions,
            attention_mask=None,
            use_cache=False,
        ).last_hidden_state
        index = packed.columns[..., None].expand(-1, -1, hidden.shape[-1])
        logits = model.lm_head(hidden.gather(1, index))
        counted = packed.target_mask.clone()
        for row, made in enumerate(lessons):
            counted[row, : len(made.learned)] &= torch.from_numpy(made.learned).to(device)
        answer = F.cross_entropy(logits[counted], packed.targets[counted])
        dense = dense_loss(head(features), torch.from_numpy(np.concatenate(truths)))
        loss = answer + stage.aux * dense
        scale = min(1.0, (step + 1) / stage.warm)
        if step > 0.3 * stage.steps:
            scale = min(scale, 0.1 + 0.9 * (1 - (step - 0.3 * stage.steps) / (0.7 * stage.steps)))
        for optimiser, peak in zip(optimisers, peaks, strict=True):
            for group in optimiser.param_groups:
                group["lr"] = peak * scale
            optimiser.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_([p for _, p in named], 1.0)
        for optimiser in optimisers:
            optimiser.step()
        report(step, float(answer.detach()), float(dense.detach()))
