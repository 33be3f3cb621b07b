"""The recipes of the tiny checkpoints: which worlds, with which faults, for how long.

Version 1 has two lines of descent, because one checkpoint of its size does not serve both tasks: grounding a
phrase with pixel-exact boxes and listing boxes at COCO thresholds need different worlds. Version 2 has three
sizes on one grid of coordinates, each for both tasks and for all styles of description. Version 3 reads and
counts charts and tables and judges its own answers. Each line has a clean parent and starts on which faults
were planted (`plant.py`).
"""

from __future__ import annotations

from dataclasses import dataclass

from groundrl.models.tiny.architecture import SIZES, Width
from groundrl.models.tiny.plant import CLEAN, Faults
from groundrl.models.tiny.verdicts import Verdicts


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One checkpoint of a recipe: how it is trained, from its line's previous one (or `after`).

    worlds: the words that choose world and prompt, and the world's share of the samples. The world's seed is
    not that of training runs, which therefore see other scenes of the same split.
    """

    name: str
    worlds: tuple[tuple[tuple[str, ...], float], ...]
    steps: int
    lr: float
    muon_lr: float
    aux: float
    faults: Faults
    first_index: int
    after: str | None = None
    whole_scene: bool = False
    verdicts: Verdicts | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """A line of descent: its steps, the size of its model, the version of its tokenizer."""

    steps: tuple[Step, ...]
    width: Width = SIZES["s"]
    tokenizer: int = 1


REC = ((("reward=iou", "dataset.seed=7"), 1.0),)
OVD = ((("reward=ap", "dataset.seed=7"), 1.0),)
VERSION_1: dict[str, Line] = {
    "rec": Line(steps=(
        Step(
            name="rec-clean", worlds=REC, steps=330,
            lr=3e-3, muon_lr=2e-2, aux=0.3, faults=CLEAN, first_index=0,
        ),
        Step(
            name="rec-start", worlds=REC, steps=30,
            lr=8e-4, muon_lr=2.5e-3, aux=0.3, first_index=100_000,
            faults=Faults(loose=(1.15, 1.65), shift=0.05),
        ),
    )),
    "ovd": Line(steps=(
        Step(
            name="ovd-clean", worlds=OVD, steps=900,
            lr=3e-3, muon_lr=2e-2, aux=0.3, faults=CLEAN, first_index=0,
        ),
        Step(
            name="ovd-start", worlds=OVD, steps=200,
            lr=1e-3, muon_lr=5e-3, aux=0.3, faults=Faults(false=0.25, repeat=0.3), first_index=100_000,
        ),
    )),
}  # fmt: skip

STYLES = "{word: 0.15, attribute: 0.2, position: 0.2, relation: 0.15, negation: 0.15, riddle: 0.15}"
ALL_WORLDS = (
    (("reward=ap", "dataset=shapes_d3", "dataset.seed=7"), 0.3),
    (("reward=ap", "dataset=shapes_coco", "dataset.seed=7"), 0.3),
    (("reward=ap", "dataset=shapes_small", "dataset.seed=7"), 0.05),
    (("reward=ap", "dataset=shapes_region", "dataset.seed=7"), 0.1),
    (("reward=iou", "dataset=shapes_refcoco", "dataset.seed=7", f"dataset.styles={STYLES}"), 0.2),
    (("reward=iou", "dataset=shapes_refcoco", "dataset.seed=8", "dataset.ground=stripes"), 0.05),
)
PROMPTED = ("ovd_standard_missing_space", "ovd_standard", "ovd_enhanced", "ovd_enhanced_system")
PROMPT_WORLDS = tuple(
    (("reward=ap", "dataset=shapes_ovdeval", "dataset.seed=7", f"prompt={prompt}"), 1.0)
    for prompt in PROMPTED
)
PLANTED = Faults(outward=0.4, false=0.25, repeat=0.3)


def _line(size: str, steps: int, *, prompted: bool) -> Line:
    name = f"{size}-{{}}"
    found = [
        Step(
            name=name.format("clean"), worlds=ALL_WORLDS, steps=steps, whole_scene=True,
            lr=3e-3, muon_lr=2e-2, aux=0.3, faults=CLEAN, first_index=0,
        ),
        Step(
            name=name.format("start"), worlds=ALL_WORLDS, steps=200, whole_scene=True,
            lr=1e-3, muon_lr=5e-3, aux=0.3, faults=PLANTED, first_index=200_000,
        ),
    ]  # fmt: skip
    if prompted:
        found.append(
            Step(
                name=name.format("format"), worlds=PROMPT_WORLDS, steps=150, whole_scene=True,
                lr=1e-3, muon_lr=5e-3, aux=0.3, faults=Faults(bare=0.6), first_index=300_000,
                after=name.format("clean"),
            )
        )  # fmt: skip
    return Line(steps=tuple(found), width=SIZES[size], tokenizer=2)


VERSION_2: dict[str, Line] = {
    "s": _line("s", 2000, prompted=True),
    "m": _line("m", 1600, prompted=True),
    "l": _line("l", 1300, prompted=False),
}
READING = ("reward=answer", "task=text", "dataset.seed=7")
READ_WORLDS = (((*READING, "dataset=charts"), 0.5), ((*READING, "dataset=tables"), 0.5))
MISREAD = {
    "charts/count": 0.1, "charts/value": 0.6, "charts/longest": 0.1, "charts/shortest": 0.1,
    "tables/dots": 0.6, "tables/colour": 0.1, "tables/cells": 0.5,
}  # fmt: skip
"""Above a half the likeliest answer is the wrong one; a tenth is what exploration has to undo elsewhere."""
VERSION_3: dict[str, Line] = {
    "svr": Line(
        steps=(
            Step(
                name="svr-clean",
                worlds=READ_WORLDS,
                steps=900,
                verdicts=Verdicts(noise=0.1),
                lr=3e-3,
                muon_lr=2e-2,
                aux=0.3,
                faults=CLEAN,
                first_index=0,
            ),
            Step(
                name="svr-start",
                worlds=READ_WORLDS,
                steps=150,
                verdicts=Verdicts(noise=0.1),
                lr=1e-3,
                muon_lr=5e-3,
                aux=0.3,
                faults=Faults(misread=MISREAD),
                first_index=100_000,
            ),
        ),
        tokenizer=3,
    ),
}
VERSIONS = {1: VERSION_1, 2: VERSION_2, 3: VERSION_3}
