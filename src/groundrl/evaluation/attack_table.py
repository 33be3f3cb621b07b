"""What attacks on an answer gain under a rubric, with bootstrap intervals, against what is declared of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from groundrl.evaluation.attack_scenes import AttackScene, Base
from groundrl.evaluation.bootstrap import Indices, Metric, bootstrap_many
from groundrl.geometry.boxes import Float64
from groundrl.rewards.attacks import ATTACKS, AttackName, Items, items_of, written
from groundrl.rewards.rubric import Rubric
from groundrl.rollout.written import written_rollout

CHARACTERS_PER_TOKEN = 3
EXACT = 1e-9
"""Rewards that differ by less are equal: floats are summed in the order of emission."""


class Property(StrEnum):
    """What a reward option promises.

    hardened  no attack gains on average (upper bound of the interval <= 0); the order of items never counts
    faithful  as published; its known gains are there (lower bound > 0), and its order counts where it did
    """

    HARDENED = "hardened"
    FAITHFUL = "faithful"


DECLARED: Mapping[str, Property] = {
    "ap": Property.FAITHFUL,
    "ap50": Property.FAITHFUL,
    "odlength": Property.FAITHFUL,
    "weighted_sum": Property.FAITHFUL,
    "ws_cosine": Property.FAITHFUL,
    "ws_cosine_rep": Property.FAITHFUL,
    "ap_strict": Property.HARDENED,
    "f1": Property.HARDENED,
    "hungarian": Property.HARDENED,
    "iou": Property.HARDENED,
    "iou_rec": Property.HARDENED,
    "giou": Property.HARDENED,
    "dynamic_iou": Property.HARDENED,
}
"""Reward options by name; one that is not here promises nothing."""

KNOWN_GAINS: Mapping[str, frozenset[tuple[Base, AttackName]]] = {
    "ap": frozenset({(Base.NOISY, AttackName.JITTERED_COPIES), (Base.PARTIAL, AttackName.GRID_ADDED)}),
    "ap50": frozenset({(Base.NOISY, AttackName.GRID_ADDED), (Base.PARTIAL, AttackName.GRID_ADDED)}),
}
"""Gains of published rewards: AP pays nothing for false positives behind the last true one, so that boxes
written there can only help."""

ORDER_COUNTS = frozenset({"ap", "ap50", "odlength"})
"""Options under which the order of items changes the reward of a noisy answer (not its mean)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One attack on one kind of answer: the mean gain with its 95 % interval, the largest change of a
    single scene in either direction, and the mean rewards before and after."""

    base: Base
    attack: AttackName
    gain: Metric
    largest: float
    before: float
    after: float


def measure(
    rubric: Rubric, scenes: Sequence[AttackScene], *, seed: int = 0, resamples: int = 1000
) -> list[Cell]:
    """A cell per kind of answer and attack; gain = reward(attacked) - reward(answer) of the same scene.

    scenes  all of the rubric's task, rec or ovd

    A token stands for three characters where a term counts tokens. Raises ValueError if a reward is missing
    (a judge that was not asked).
    """
    bases = list(scenes[0].answers)
    attacks = ATTACKS[rubric.task]
    before: dict[Base, list[float]] = {base: [] for base in bases}
    after: dict[tuple[Base, AttackName], list[float]] = {
        (base, name): [] for base in bases for name in attacks
    }
    for index, scene in enumerate(scenes):
        known: dict[str, float] = {}
        for base in bases:
            items = items_of(scene.sample.task, scene.answers[base])
            before[base].append(_reward(rubric, scene, items, known))
            for number, (name, attack) in enumerate(attacks.items()):
                rng = np.random.default_rng([seed, index, number])
                attacked = attack(scene.asked, items, rng)
                after[base, name].append(_reward(rubric, scene, attacked, known))
    gains = np.array([np.subtract(values, before[base]) for (base, _), values in after.items()])

    def means(indices: Indices) -> Float64:
        return gains[:, indices].mean(axis=1)

    metrics = bootstrap_many(means, len(scenes), seed=seed, resamples=resamples)
    return [
        Cell(
            base=base,
            attack=name,
            gain=metric,
            largest=float(np.abs(row).max()),
            before=float(np.mean(before[base])),
            after=float(np.mean(after[base, name])),
        )
        for (base, name), metric, row in zip(after, metrics, gains, strict=True)
    ]


def _reward(rubric: Rubric, scene: AttackScene, items: Items, known: dict[str, float]) -> float:
    """The total of one answer; `known` holds those of the scene that were scored before, by text."""
    text = written(scene.sample.task, items)
    if text not in known:
        rollout = written_rollout(
            scene.sample.id, text, [scene.frame], tokens=len(text) // CHARACTERS_PER_TOKEN
        )
        total = rubric.score(rollout, scene.sample).total
        if total is None:
            raise ValueError(f"sample {scene.sample.id} has no reward: a term is missing")
        known[text] = total
    return known[text]


def violations(name: str, cells: Sequence[Cell]) -> list[str]:
    """What the cells of reward option `name` show against its declared property, one line each."""
    found: list[str] = []
    hardened = DECLARED.get(name) is Property.HARDENED
    known = KNOWN_GAINS.get(name, frozenset())
    for cell in cells:
        where, gain = f"{name}, {cell.base} answers, {cell.attack}", cell.gain
        if hardened and gain.high > EXACT:
            found.append(f"{where}: gains {gain.value:+.4f}, upper bound {gain.high:+.4f} > 0")
        if (cell.base, cell.attack) in known and gain.low <= EXACT:
            found.append(f"{where}: the known gain is not there, lower bound {gain.low:+.4f}")
        if cell.attack is AttackName.REORDERED:
            if hardened and cell.largest > EXACT:
                found.append(f"{where}: the order counts, by up to {cell.largest:.4f}")
            if name in ORDER_COUNTS and cell.base is Base.NOISY and cell.largest <= EXACT:
                found.append(f"{where}: the order is known to count and does not")
    return found
